"""`python study/verdict.py ROWS.txt...`: the registered criterion on confirm.py's rows."""
import sys, collections
import numpy as np
from scipy import stats
by=collections.defaultdict(list);bad=[]
for f in sys.argv[1:]:
    for l in open(f):
        n,kind,*r=l.split();v=[*map(float,r[-6:])]
        by[kind,n].append(v)
        if v[2]+v[3]<-.005 or v[4]-v[5]>.005: bad.append(l.strip())
print('rows below -.005 AUC or above +.005 log loss:',bad)
for kinds in(('old','new'),('new',)):
    for j,name in((2,'AUC'),(4,'log loss')):
        m=np.array([np.mean([v[j] for v in r]) for (k,_),r in by.items() if k in kinds])
        h=stats.t.ppf(.975,len(m)-1)*m.std(ddof=1)/len(m)**.5
        print(kinds,len(m),'tables',name,f'{m.mean():+.5f} ± {h:.5f}',f'{(m>0).sum()} above 0, {(m<0).sum()} below')
