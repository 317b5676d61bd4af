// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes control plane on this machine and takes it down again: etcd,
// kube-apiserver, kube-controller-manager and kwok's simulated nodes, each its own process on a free loopback
// port, with TLS and RBAC on and all files in one directory. The sandbox, the end-to-end tests and the
// benchmarks share it. It may import nothing of the scheduler: schedulers run beside it as processes.
//
// How it is used:
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr})
//	defer cp.Stop()
//	err = cp.InstallCRDs(ctx)                      // config/crd, waits until they are served
//	err = cp.InstallChart(ctx)                     // the chart's namespace, RBAC, priority class and default queue
//	err = cp.CreateNodes(ctx, controlplane.NodeShape{Count: 20, GPUs: 8, IBClusters: 2})
//	sched, err := cp.StartScheduler(ctx, controlplane.SchedulerOptions{Conf: conf})
//	...
//	err = sched.Kill9()                            // or Terminate, Pause, Resume, ReplaceConf
//	sched, err = sched.Restart()                   // as a kubelet would, the API server away or not
//	err = cp.Kill(controlplane.APIServer)          // kill -9
//	err = cp.Restart(ctx, controlplane.APIServer)  // the same port, the same data
//
// Faults between a scheduler and the API server:
//
//	proxy, err := cp.StartFaultProxy()
//	sched, err := cp.StartScheduler(ctx, controlplane.SchedulerOptions{Server: proxy.URL(), Conf: conf})
//	rule := proxy.Add(faultproxy.Rule{Method: "POST", Path: "/binding$", Action: faultproxy.Hold()})
//	<-rule.Reached()                               // a binding is at the gate
//	rule.Release()
//
// Invariants: no process outlives Stop, nor the process that called Start however that one ends, since each is
// started with a parent death signal; every server listens on 127.0.0.1 only; a component that dies by itself
// is reported with the tail of its log by whatever call waits on it, and on Dead.
package controlplane
