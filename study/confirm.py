"""Confirmation of the rounds of `train --goal=proved`: rule B beside 60 rounds.

  python study/confirm.py DATA NAMES   # DATA has resources/rdata/csv and sksurv/
"""
import csv, functools, sys
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss, roc_auc_score
from dp_accounting import dp_event, mechanism_calibration as mc
from dp_accounting.pld import pld_privacy_accountant as pa
from fedsvp_jax.mechanisms.calibration import analytic_multiplier
ROOT=sys.argv[1]; P=ROOT+'/resources/rdata/csv/'; S=ROOT+'/sksurv/datasets/data/'
SEEDS=range(100,110); DELTA=1e-5; C=2.; MOM=.9
def rd(p): return list(csv.DictReader(open(p)))
def arff(p):
    names=[];rows=[];d=False
    for l in open(p):
        l=l.strip()
        if not l or l[0]=='%':continue
        if l.lower().startswith('@attribute'): names.append(l.split()[1].strip("'\""))
        elif l.lower().startswith('@data'): d=True
        elif d: rows.append(dict(zip(names,next(csv.reader([l],quotechar="'")))))
    return rows
def enc(rows,drop,log=()):
    X=[];q=0
    for c in rows[0]:
        if c in drop or c=='': continue
        v=[r[c] for r in rows]; q+=1
        try:
            miss={'NA','?',''}
            a=np.array([np.nan if x in miss else float(x) for x in v])
            m=np.isnan(a); a[m]=np.nanmedian(a)
            if c in log: a=np.log(a-a.min()+1)
            lo,hi=a.min(),a.max(); w=hi-lo
            if w==0: continue
            lo-=.1*w*(w>1); hi+=.2*w*(w>1)
            X.append((2*(a-lo)/(hi-lo)-1)[:,None])
        except ValueError:
            cats=sorted(set(v))[:40]
            X.append(np.array([[x==k for k in cats] for x in v],float))
    return np.concatenate(X,1).astype(np.float32),q
def tab(rows,drop,y,log=(),K=5):
    X,q=enc(rows,set(drop.split()),log.split() if log else ()); return X,np.array([*map(y,rows)]),K,q
def breast():
    b=load_breast_cancer();B=b.data
    return (2*(B-B.min(0))/(np.ptp(B,0)*1.2)-1).astype(np.float32),b.target==0,5,30
pos=lambda c:lambda r:float(r[c])>0
is_=lambda c,v:lambda r:r[c]==v
OLD={ # tables of the study; splits are new
 'rwm_doc':lambda:tab(rd(P+'COUNT/rwm5yr.csv'),'docvis id hospvis',pos('docvis')),
 'rwm_out':lambda:tab(rd(P+'COUNT/rwm5yr.csv'),'outwork id',is_('outwork','1'),'docvis hospvis'),
 'rwm_hosp':lambda:tab(rd(P+'COUNT/rwm5yr.csv'),'hospvis id',pos('hospvis')),
 'medpar':lambda:tab(rd(P+'COUNT/medpar.csv'),'died provnum',is_('died','1'),'los',52),
 'HI':lambda:tab(rd(P+'Ecdat/HI.csv'),'whi',is_('whi','yes'),'kidslt6 wght'),
 'nwtco':lambda:tab(rd(P+'survival/nwtco.csv'),'rel seqno edrel',is_('rel','1')),
 'flchain':lambda:tab(arff(S+'flchain.arff'),'death futime chapter',lambda r:r['death'] in('1','dead','True','TRUE'),'kappa lambda creatinine',12),
 'whas500':lambda:tab(arff(S+'whas500.arff'),'fstat lenfol',is_('fstat','1')),
 'GBSG2':lambda:tab(arff(S+'GBSG2.arff'),'cens time',is_('cens','1'),'pnodes'),
 'adult':lambda:tab(rd('/tmp/data/adult/adult.csv')[::2],'income split',lambda r:'>' in r['income'],'capital-gain capital-loss'),
 'breast':breast}
NEW={ # tables the study never used
 'benefits':lambda:tab(rd(P+'Ecdat/Benefits.csv'),'ui state',is_('ui','yes')),
 'hdma':lambda:tab(rd(P+'Ecdat/Hdma.csv'),'deny',is_('deny','yes')),
 'doctoraus':lambda:tab(rd(P+'Ecdat/DoctorAUS.csv'),'doctorco',pos('doctorco')),
 'ofp':lambda:tab(rd(P+'Ecdat/OFP.csv'),'hosp',pos('hosp')),
 'contacts':lambda:tab(rd(P+'Ecdat/DoctorContacts.csv'),'mdu',pos('mdu')),
 'vietnam':lambda:tab(rd(P+'Ecdat/VietNamI.csv'),'pharvis commune',pos('pharvis')),
 'participation':lambda:tab(rd(P+'Ecdat/Participation.csv'),'lfp',is_('lfp','yes')),
 'azpro':lambda:tab(rd(P+'COUNT/azpro.csv'),'procedure hospital',is_('procedure','1'),'los'),
 'badhealth':lambda:tab(rd(P+'COUNT/badhealth.csv'),'badh',is_('badh','1')),
 'titanic':lambda:tab(rd(P+'COUNT/titanic.csv'),'survived',is_('survived','yes')),
 'aids2':lambda:tab(rd(P+'MASS/Aids2.csv'),'status death',is_('status','D')),
 'biopsy':lambda:tab(rd(P+'MASS/biopsy.csv'),'class ID',is_('class','malignant')),
 'pneumon':lambda:tab(rd(P+'KMsurv/pneumon.csv'),'hospital chldage agepn',is_('hospital','1')),
 'std':lambda:tab(rd(P+'KMsurv/std.csv'),'rinfct time obs',is_('rinfct','1')),
 'turnout':lambda:tab(rd(P+'Zelig/turnout.csv'),'vote',is_('vote','1')),
 'cowles':lambda:tab(rd(P+'car/Cowles.csv'),'volunteer',is_('volunteer','yes')),
 'actg320':lambda:tab(arff(S+'actg320.arff'),'time censor time_d censor_d',is_('censor','1'))}
@functools.cache
def sampled_multiplier(eps,q,T):
    """z of T Poisson steps by PLD."""
    make=lambda:pa.PLDAccountant(value_discretization_interval=1e-3)
    ev=lambda z:dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(q,dp_event.GaussianDpEvent(z)),T)
    return mc.calibrate_dp_mechanism(make,ev,eps,DELTA,mc.ExplicitBracketInterval(.3,60),tol=1e-3)
def train(X,y,std,T,eta,rng,q=1.):
    """std: of the noise on a step's mean gradient; q: share of rows a step takes."""
    n,d=X.shape;F=np.concatenate([X,np.ones((n,1),np.float32)],1)
    A=F*np.minimum(1,C/np.sqrt((F*F).sum(1)))[:,None]
    w=np.zeros((d+1,2),np.float32);p1=round(float(y.mean()),2) or .01;w[-1]=np.log([1-p1,p1]);V=np.zeros_like(w)
    Y=np.stack([~y,y],1).astype(np.float32)
    for t in range(T):
        i=slice(None) if q==1 else np.flatnonzero(rng.random(n)<q)
        f=F[i];z=f@(w[:,1]-w[:,0]);p=1/(1+np.exp(-z));R=np.stack([1-p,p],1)-Y[i]
        R*=np.minimum(1,1/np.maximum(np.sqrt((R*R).sum(1)),1e-9))[:,None]
        G=A[i].T@R/(n*q)+rng.normal(0,std,w.shape).astype(np.float32)
        V=MOM*V+G*eta*.5*(1+np.cos(np.pi*t/T));w=w-V
    return w[:,1]-w[:,0]
def now(s,q): return 60,min(.2,.5*(1-MOM)/(60*s))
def ruleB(s,q):
    M=.5*(1-MOM)/s; T=int(min(max(M/.2,60),240))
    fastest=4*(1+MOM)/(C*(q+1)**.5) if T==240 else .2
    return T,min(max(fastest,.2),M/T)
def evaluate(table,seed,eps,trust,rule):
    X,y,K,cols=table
    o=np.random.default_rng([73,seed]).permutation(len(y));k=len(y)//5;a,b=o[k:],o[:k];n=len(a)
    secure=trust=='secure'
    q=1. if secure else min(1.,4096/n)   # one client of more rows has steps of 4096
    factor=(K/(K-max(1,min(2,K-1),K//3)))**.5 if secure else 1
    s=float(analytic_multiplier(eps,DELTA))*C*factor/(n*q)
    T,eta=rule(s,cols)
    std=s*T**.5 if q==1 else C*sampled_multiplier(eps,q,T)/(n*q)
    w=train(X[a],y[a],std,T,eta,np.random.default_rng([73,seed,eps]),q)
    z=np.clip(X[b]@w[:-1]+w[-1],-30,30);p=1/(1+np.exp(-z))
    return roc_auc_score(y[b],z),log_loss(y[b],np.clip(p,1e-6,1-1e-6)),T,eta
if __name__=='__main__':
    for name in sys.argv[2].split(','):
        table=(OLD|NEW)[name]()
        for trust in('trusted','secure'):
            for eps in(1,3,8):
                A=np.array([evaluate(table,s,eps,trust,now) for s in SEEDS])
                _,_,T,eta=evaluate(table,SEEDS[0],eps,trust,ruleB)
                B=A if (T,eta)==tuple(A[0,2:]) else np.array([evaluate(table,s,eps,trust,ruleB) for s in SEEDS])
                d=B-A;h=lambda j:2.262*d[:,j].std(ddof=1)/10**.5
                print(name,'new' if name in NEW else 'old',len(table[1]),trust,eps,int(T),f'{eta:.3f}',*(f'{v:.5f}' for v in(A[:,0].mean(),A[:,1].mean(),d[:,0].mean(),h(0),d[:,1].mean(),h(1))),flush=True)
