// SPDX-License-Identifier: Apache-2.0

// Package controlplane starts a real Kubernetes control plane on this machine and stops it again: etcd, kube-apiserver,
// kube-controller-manager and kwok's simulated nodes. Each is a process on a free loopback port, with TLS and RBAC
// enabled and all files in one directory. The sandbox, the end-to-end tests and the benchmarks use this package. It may
// import nothing of the scheduler: schedulers run as separate processes.
//
// Usage:
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{Progress: os.Stderr})
//	defer cp.Stop()
//	err = cp.InstallCRDs(ctx)                      // config/crd, waits until they are served
//	err = cp.InstallChart(ctx)                     // the chart's namespace, RBAC, priority class and default queue
//	err = cp.CreateNodes(ctx, controlplane.NodeShape{Count: 20, GPUs: 8, IBClusters: 2})
//	sched, err := cp.StartScheduler(ctx, controlplane.SchedulerOptions{Conf: conf})
//	...
//	err = sched.Kill9()                            // or Terminate, Pause, Resume, ReplaceConf
//	sched, err = sched.Restart()                   // as a kubelet would, even if the API server is unavailable
//	err = cp.Kill(controlplane.APIServer)          // kill -9
//	err = cp.Restart(ctx, controlplane.APIServer)  // the same port, the same data
//
// Faults between a scheduler and the API server:
//
//	proxy, err := cp.StartFaultProxy()
//	sched, err := cp.StartScheduler(ctx, controlplane.SchedulerOptions{Server: proxy.URL(), Conf: conf})
//	rule := proxy.Add(faultproxy.Rule{Method: "POST", Path: "/binding$", Action: faultproxy.Hold()})
//	<-rule.Reached()                               // a binding is held by the rule
//	rule.Release()
//
// Invariants: no process outlives Stop or the process that called Start, even if that process is killed, because each
// process is started with a parent death signal. Every server listens on 127.0.0.1 only. If a component exits by
// itself, calls that wait for the component, and the channel Dead, report an error with the tail of its log.
package controlplane
