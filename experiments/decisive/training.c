/* Trains a network of 16 hidden ReLUs on one set of rows under many settings ("lanes").
 *
 * The steps are those of `networks` and of `decisive/small_models`; only rows that are
 * members are computed, and all lanes read the same noise. A lane's weights are
 *   W1 (d, 16), b1 (16), W2 (16, 16), b2 (16),
 * where columns of W2 and b2 beyond the classes are 0 and -1e30.
 */
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

typedef float v16 __attribute__((vector_size(64)));
enum { BLOCK = 8, WIDE = 12 };

static v16 exponential(v16 x) {
  x = _mm512_max_ps(x, _mm512_set1_ps(-87.0f));
  v16 n = _mm512_roundscale_ps(x * 1.44269504088896341f, 0);
  v16 r = x - n * 0.693359375f - n * -2.12194440e-4f;
  v16 p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return _mm512_scalef_ps(p, n);
}

/* before (rows, 16) = x W1 + b1; rows is a multiple of BLOCK. */
static void first_layer(int rows, int d, const float *x, const v16 *w, v16 *before) {
  for (int r = 0; r < rows; r += BLOCK) {
    v16 sum[BLOCK];
    for (int j = 0; j < BLOCK; j++) sum[j] = (v16){0};
    const float *row = x + (size_t)r * d;
    for (int k = 0; k < d; k++)
      for (int j = 0; j < BLOCK; j++) sum[j] += w[k] * row[(size_t)j * d + k];
    for (int j = 0; j < BLOCK; j++) before[r + j] = sum[j] + w[d];
  }
}

static v16 second_layer(v16 hidden, const v16 *w) {
  v16 even = {0}, odd = {0};
  for (int h = 0; h < 16; h += 2) {
    even += w[h] * hidden[h];
    odd += w[h + 1] * hidden[h + 1];
  }
  return even + odd + w[16];
}

static float squares(v16 x) { return _mm512_reduce_add_ps(x * x); }

/* Logits (lanes, count, classes) of the trained networks.
 *
 * rows: multiple of 8; scale (lanes, rows) is 0 where a row fills up.
 * clip: 0 for none, else C: a row's gradient has at most the norm scale * C.
 * noise: (steps, d + 18, 16) or 0; the gradient is (sum + sigma noise) * average.
 */
void train(int lanes, int steps, int rows, int d, int classes, const float *x,
           const int *labels, const float *scale, float clip, const float *sigma,
           const float *start, const float *noise, float average, float rate,
           float momentum, int count, const float *asked, float *logits) {
  int size = d + 18; /* vectors of 16 */
  v16 *w = aligned_alloc(64, sizeof(v16) * size);
  v16 *velocity = aligned_alloc(64, sizeof(v16) * size);
  v16 *before = aligned_alloc(64, sizeof(v16) * rows);
  v16 *down = aligned_alloc(64, sizeof(v16) * rows);
  float *length = malloc(sizeof(float) * rows);
  for (int r = 0; r < rows; r++) {
    v16 sum = {0};
    float rest = 1.0f;
    int k = 0;
    for (; k + 16 <= d; k += 16) {
      v16 part;
      memcpy(&part, x + (size_t)r * d + k, 64);
      sum += part * part;
    }
    for (; k < d; k++) rest += x[(size_t)r * d + k] * x[(size_t)r * d + k];
    length[r] = _mm512_reduce_add_ps(sum) + rest;
  }
  for (int lane = 0; lane < lanes; lane++) {
    const float *factor = scale + (size_t)lane * rows;
    memcpy(w, start, sizeof(v16) * size);
    memset(velocity, 0, sizeof(v16) * size);
    v16 *last = w + d + 1;
    for (int t = 0; t < steps; t++) {
      v16 turned[16], total[18];
      for (int c = 0; c < classes; c++)
        for (int h = 0; h < 16; h++) turned[c][h] = last[h][c];
      for (int i = 0; i < 18; i++) total[i] = (v16){0};
      first_layer(rows, d, x, w, before);
      for (int r = 0; r < rows; r++) {
        v16 zero = {0}, hidden = _mm512_max_ps(before[r], zero);
        v16 top = second_layer(hidden, last);
        top = exponential(top - _mm512_reduce_max_ps(top));
        top /= _mm512_reduce_add_ps(top);
        top[labels[r]] -= 1.0f;
        v16 back = {0};
        for (int c = 0; c < classes; c++) back += turned[c] * top[c];
        back = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(before[r], zero, _CMP_GT_OQ), back);
        float by = factor[r];
        if (clip > 0) {
          float norm = __builtin_sqrtf(length[r] * squares(back) +
                                       (squares(hidden) + 1.0f) * squares(top));
          float part = clip / (norm > 1e-12f ? norm : 1e-12f);
          by *= part < 1.0f ? part : 1.0f;
        }
        down[r] = back * by;
        top *= by;
        total[0] += down[r];
        for (int h = 0; h < 16; h++) total[1 + h] += top * hidden[h];
        total[17] += top;
      }
      const float *drawn = noise ? noise + (size_t)t * size * 16 : 0;
      float loud = noise ? sigma[lane] * (clip > 0 ? clip : 1.0f) : 0.0f;
      for (int k = 0; k < size; k += WIDE) {
        v16 sum[WIDE];
        int wide = k + WIDE <= d ? WIDE : 1;
        if (wide == WIDE) {
          for (int j = 0; j < WIDE; j++) sum[j] = (v16){0};
          for (int r = 0; r < rows; r++)
            for (int j = 0; j < WIDE; j++) sum[j] += down[r] * x[(size_t)r * d + k + j];
        } else if (k < d) {
          sum[0] = (v16){0};
          for (int r = 0; r < rows; r++) sum[0] += down[r] * x[(size_t)r * d + k];
        } else {
          sum[0] = total[k - d];
        }
        for (int j = 0; j < wide; j++) {
          v16 gradient = sum[j];
          if (drawn) {
            v16 draw;
            memcpy(&draw, drawn + (size_t)(k + j) * 16, 64);
            gradient += draw * loud;
          }
          velocity[k + j] = velocity[k + j] * momentum + gradient * average;
          w[k + j] -= velocity[k + j] * rate;
        }
        k -= WIDE - wide;
      }
    }
    for (int q = 0; q < count; q += BLOCK) {
      v16 block[BLOCK];
      int fill = count - q < BLOCK ? count - q : BLOCK;
      if (fill == BLOCK)
        first_layer(BLOCK, d, asked + (size_t)q * d, w, block);
      else
        for (int j = 0; j < fill; j++) {
          block[j] = w[d];
          for (int k = 0; k < d; k++) block[j] += w[k] * asked[(size_t)(q + j) * d + k];
        }
      for (int j = 0; j < fill; j++) {
        v16 zero = {0}, out = second_layer(_mm512_max_ps(block[j], zero), last);
        memcpy(logits + ((size_t)lane * count + q + j) * classes, &out, 4 * classes);
      }
    }
  }
  free(w), free(velocity), free(before), free(down), free(length);
}
