// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane/faultproxy"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

// fault causes a fault and repairs it again. An error means that the fault could not be caused.
type fault struct {
	name string
	// ends reports whether the fault ends schedulers.
	ends bool
	play func(context.Context, *rand.Rand) error
}

// faults returns the faults to choose from.
func (s *soak) faults(lasting bool) []fault {
	all := []fault{
		{"a scheduler is killed", true, s.killScheduler},
		{"a scheduler is told to end", true, s.terminateScheduler},
		{"a scheduler is paused beyond its lease", true, s.pauseScheduler},
		{"the API server is away for long", true, s.away(controlplane.APIServer, 12, 25)},
		{"the API server is away", false, s.away(controlplane.APIServer, 1, 5)},
		{"etcd is away", false, s.away(controlplane.Etcd, 1, 4)},
		{"calls fail", false, s.breakCalls},
		{"a node is registered again under its pods", false, s.registerAgain},
		{"a node is lost with its pods", false, s.loseNode},
		{"a node changes", false, s.changeNode},
		{"the conf changes", false, s.changeConf},
		{"steps fail", false, s.order(control.Random)},
		{"steps hang", false, s.order(control.Hang)},
		{"steps panic", false, s.order(control.Panic)},
		{"rollbacks fail", false, s.order(control.FailRollback)},
		{"odd objects are made", false, s.odd.makeAndRemove},
		{"a PodGroup is deleted and made again", false, s.deletePodGroup},
		{"pods are deleted and made again", false, s.deletePods},
	}
	return slices.DeleteFunc(all, func(f fault) bool { return lasting && f.ends })
}

// repair repairs the remaining effects of faults.
func (s *soak) repair(ctx context.Context) error {
	for _, verb := range []control.Verb{control.Random, control.Hang, control.Panic, control.FailRollback} {
		if err := s.orders.Revoke(plugin, control.Anything, verb); err != nil {
			return err
		}
	}
	return s.odd.remove(ctx)
}

func (s *soak) process(random *rand.Rand) *controlplane.Scheduler {
	return s.replicas[random.IntN(len(s.replicas))].running()
}

func (s *soak) killScheduler(_ context.Context, random *rand.Rand) error {
	if process := s.process(random); process != nil {
		return process.Kill9()
	}
	return nil
}

func (s *soak) terminateScheduler(_ context.Context, random *rand.Rand) error {
	if process := s.process(random); process != nil {
		return process.Terminate()
	}
	return nil
}

func (s *soak) pauseScheduler(ctx context.Context, random *rand.Rand) error {
	process := s.process(random)
	if process == nil {
		return nil
	}
	if err := process.Pause(); err != nil {
		return err
	}
	pause(ctx, 18*time.Second)
	return process.Resume()
}

// away kills a component and starts it again after a number of seconds between low and high.
func (s *soak) away(component controlplane.Component, low, high int) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, random *rand.Rand) error {
		s.outage.Lock()
		defer s.outage.Unlock()
		if err := s.cp.Kill(component); err != nil {
			return err
		}
		pause(ctx, seconds(random, low, high))
		return s.cp.Restart(ctx, component)
	}
}

// breakCalls breaks a part of the scheduler's calls, each in one of five ways, for a while.
func (s *soak) breakCalls(ctx context.Context, random *rand.Rand) error {
	for _, action := range []faultproxy.Action{
		faultproxy.Answer(http.StatusInternalServerError, 0),
		faultproxy.Answer(http.StatusTooManyRequests, time.Second),
		faultproxy.Answer(http.StatusConflict, 0),
		faultproxy.DropBefore(),
		faultproxy.DropAfter(),
	} {
		rule := s.proxy.Add(faultproxy.Rule{Path: "/namespaces/" + namespace + "/", Probability: 0.05, Action: action})
		defer rule.Remove()
	}
	pause(ctx, seconds(random, 3, 10))
	return nil
}

func seconds(random *rand.Rand, low, high int) time.Duration {
	return time.Duration(low*1000+random.IntN((high-low)*1000)) * time.Millisecond
}

// registerAgain deletes a node and creates it again, while its pods keep running.
func (s *soak) registerAgain(ctx context.Context, random *rand.Rand) error {
	return s.withoutNode(ctx, random.IntN(nodeCount), func() { pause(ctx, seconds(random, 0, 3)) })
}

// loseNode deletes a node and its pods, and creates the node again later.
func (s *soak) loseNode(ctx context.Context, random *rand.Rand) error {
	i := random.IntN(nodeCount)
	return s.withoutNode(ctx, i, func() {
		now, err := s.truth.read(ctx)
		if err != nil {
			return
		}
		s.wound(ctx, now, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == nodeName(i) })
		pause(ctx, seconds(random, 2, 8))
	})
}

func (s *soak) withoutNode(ctx context.Context, i int, meanwhile func()) error {
	err := persistently(ctx, func() error {
		err := s.kube.CoreV1().Nodes().Delete(ctx, nodeName(i), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	meanwhile()
	return persistently(ctx, func() error {
		err := s.addNodes(ctx, i, 1)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// persistently repeats a failing call for up to a minute.
func persistently(ctx context.Context, call func() error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := call()
		if err == nil || !pause(ctx, time.Second) {
			return err
		}
	}
}

// wound deletes the chosen pods of the gangs. A gang that must stay in its cluster loses all of its pods, since it
// may find no room there again.
func (s *soak) wound(ctx context.Context, now *state, chosen func(*corev1.Pod) bool) {
	whole := map[string]bool{}
	for _, g := range s.fleet.all() {
		whole[g.name] = g.required
	}
	lost := map[string]bool{}
	for i := range now.pods {
		if pod := &now.pods[i]; pod.Namespace == namespace && chosen(pod) {
			lost[gangOf(pod)] = true
			s.deletePod(ctx, namespace, pod.Name)
		}
	}
	for i := range now.pods {
		if pod := &now.pods[i]; pod.Namespace == namespace && lost[gangOf(pod)] && whole[gangOf(pod)] {
			s.deletePod(ctx, namespace, pod.Name)
		}
	}
}

// gangOf returns the gang's name, with which its pods' names begin.
func gangOf(pod *corev1.Pod) string {
	name, _, _ := strings.Cut(pod.Name, "-")
	return name
}

// changeNode cordons a node, taints it, or changes its annotations again and again, and reverts the change.
func (s *soak) changeNode(ctx context.Context, random *rand.Rand) error {
	name := nodeName(random.IntN(nodeCount))
	how := random.IntN(3)
	err := s.updateNode(ctx, name, func(node *corev1.Node) {
		switch how {
		case 0:
			node.Spec.Unschedulable = true
		case 1:
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "soak", Effect: corev1.TaintEffectNoSchedule})
		default:
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, "soak/changed", time.Now().String())
		}
	})
	if err != nil {
		return err
	}
	pause(ctx, seconds(random, 1, 5))
	return s.updateNode(ctx, name, func(node *corev1.Node) {
		node.Spec.Unschedulable = false
		node.Spec.Taints = nil
		delete(node.Annotations, "soak/changed")
	})
}

func (s *soak) updateNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	return persistently(ctx, func() error {
		node, err := s.kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil // Another fault deleted the node and restores it.
		}
		if err != nil {
			return err
		}
		change(node)
		_, err = s.kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// changeConf gives the schedulers a valid configuration, sometimes after an invalid one, or after the file was
// removed.
func (s *soak) changeConf(ctx context.Context, random *rand.Rand) error {
	s.confTurn.Lock()
	defer s.confTurn.Unlock()
	spoil := random.IntN(3)
	for _, r := range s.replicas {
		process := r.running()
		if process == nil {
			continue
		}
		if spoil == 1 {
			if err := process.ReplaceConf(invalid); err != nil {
				return err
			}
		}
		if spoil == 2 {
			if err := os.Remove(process.ConfPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing the conf: %w", err)
			}
		}
	}
	pause(ctx, seconds(random, 1, 3))
	next := s.conf.next()
	for _, r := range s.replicas {
		if process := r.running(); process != nil {
			if err := process.ReplaceConf(next); err != nil {
				return err
			}
		}
	}
	return nil
}

// order gives the pre-bind plugin an order for every pod, for a while.
func (s *soak) order(verb control.Verb) func(context.Context, *rand.Rand) error {
	return func(ctx context.Context, random *rand.Rand) error {
		if err := s.orders.Order(plugin, control.Anything, verb); err != nil {
			return err
		}
		pause(ctx, seconds(random, 1, 6))
		return s.orders.Revoke(plugin, control.Anything, verb)
	}
}

func (s *soak) deletePodGroup(ctx context.Context, _ *rand.Rand) error {
	if g := s.fleet.randomGang(); g != nil {
		_ = s.vc.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, g.name, metav1.DeleteOptions{})
	}
	return nil
}

func (s *soak) deletePods(ctx context.Context, random *rand.Rand) error {
	now, err := s.truth.read(ctx)
	if err != nil {
		return nil // While the API server cannot be reached, nothing can be deleted.
	}
	s.wound(ctx, now, func(*corev1.Pod) bool { return random.IntN(10) == 0 })
	return nil
}
