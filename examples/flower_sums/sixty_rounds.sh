#!/usr/bin/env bash
# Sixty rounds of twelve hospitals on one machine, as docs/deploy.md's checklist types them:
#     nice -n 10 bash examples/flower_sums/sixty_rounds.sh flchain.csv FOLDER
# Typed again after a crash it goes on with the next round. One process answers for all
# nodes (one_process.py); with PROCESSES=each Flower starts four a node and a round.
set -eu
table=$1 folder=$2 port=${PORT:-29092} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder" && cd "$folder"
export FLWR_TELEMETRY_ENABLED=0 FLWR_HOME=$PWD/flwr JAX_PLATFORMS=cpu
export JAX_COMPILATION_CACHE_DIR=$PWD/compiled JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
if [ ! -d federation ]; then
  python "$here/flchain.py" "$table" .
  python -m experiments.fedsvp site propose federation --schema=schema.toml --num_clients=12 \
      --num_examples=6299 --max_num_examples=1069 --total_epsilon=3 --num_rounds=60
  for k in $(seq 0 11); do
    mkdir "$k"
    (cd "$k" && python -m experiments.fedsvp site join ../federation \
        --records="../hospital-$k.csv" --log=log --witness="$PWD/witness")
  done
  openssl req -x509 -newkey rsa:2048 -nodes -days 90 -keyout ca.key -out ca.crt -subj "/CN=our CA"
  openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj "/CN=localhost"
  printf "subjectAltName=DNS:localhost,IP:127.0.0.1" > names
  openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 90 \
      -extfile names -out server.pem
  mkdir flwr
  printf '[superlink]\ndefault = "all"\n[superlink.all]\naddress = "localhost:%s"\nroot-certificates = "%s"\n' \
      "$port" "$PWD/ca.crt" > flwr/config.toml
fi
trap 'kill $(jobs -p)' EXIT
flower-superlink --host 127.0.0.1 --port "$port" --disable-runtime-dependency-installation \
    --ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key >> link.log 2>&1 &
sleep 20
if [ "${PROCESSES:-one}" = one ]; then
  rm -f bin/flwr-clientapp
  python "$here/one_process.py" $((port + 9)) "$PWD/bin" >> process.log 2>&1 &
  until [ -x bin/flwr-clientapp ]; do sleep 1; done
  export PATH=$PWD/bin:$PATH
fi
for k in $(seq 0 11); do
  flower-supernode --superlink "localhost:$port" --root-certificates ca.crt --port $((port + 10 + k)) \
      --node-config "log=\"$PWD/$k/log\" witness=\"$PWD/$k/witness\"" >> "$k/node.log" 2>&1 &
done
sleep 30
date +%s.%N >> begun
flwr run federation --stream 2>&1 | tee -a run.log
date +%s.%N >> ended
