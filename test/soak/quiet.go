// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// recovery is how long recovery may take after the last fault: a gang's longest backoff is 72 s, and a lost lease
	// takes 15 s.
	recovery = 2 * time.Minute
	// glance is the interval between checks.
	glance = 250 * time.Millisecond
	// maxWait is how long a check may take. An API server may leave one request without an answer after etcd has
	// returned.
	maxWait = 15 * time.Second
)

// quietPoint waits until all gangs are bound after the faults have ended. It then checks that nothing was left behind
// and that no resources are reserved needlessly.
func (s *soak) quietPoint(ctx context.Context) error {
	if err := s.repair(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := settle(ctx, s, "with gangs of low priority", s.starving); err != nil {
		return err
	}
	served := time.Since(began)
	s.fleet.removeLow(ctx)
	if err := settle(ctx, s, "without gangs of low priority", s.unsettled); err != nil {
		return err
	}
	settled := time.Since(began)
	for _, r := range s.replicas {
		if err := r.awaitHealthy(ctx); err != nil {
			s.violate("%v", err)
		}
	}
	filled, err := s.fill(ctx)
	if err != nil {
		return err
	}
	s.takeLevels(ctx)
	s.say("quiet point: %d gangs bound %.1f s after the last fault, their minima beside gangs of low priority after %.1f s; %s",
		len(s.fleet.all()), settled.Seconds(), served.Seconds(), filled)
	return nil
}

// settle waits until the check finds nothing.
func settle(ctx context.Context, s *soak, how string, look func(context.Context) []string) error {
	unmet := s.await(ctx, recovery, look)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(unmet) > 0 {
		s.violate("%s after the last fault, %s: %s", recovery, how, strings.Join(unmet, "; "))
		return fmt.Errorf("the cluster did not settle; its schedulers' logs end with:\n%s", s.logTails())
	}
	return nil
}

// starving returns the gangs of the usual priority that lack members of their minimum. There is room for each of them if
// enough pods of low priority are evicted.
func (s *soak) starving(ctx context.Context) []string {
	now, err := s.truth.read(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	groups, err := s.vc.SchedulingV1beta1().PodGroups(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	minima := map[string]int{}
	for i := range groups.Items {
		minima[groups.Items[i].Name] = int(groups.Items[i].Spec.MinMember)
	}
	var unmet []string
	for _, g := range s.fleet.all() {
		if g.priority == lowPriority {
			continue
		}
		minimum, exists := minima[g.name]
		if bound, _ := now.members(g); !exists || bound < minimum {
			if lack := s.lack(ctx, now, g); lack != "" {
				unmet = append(unmet, lack)
			}
		}
	}
	return unmet
}

// await repeats the check until it finds nothing, and returns its last findings when the time is over.
func (s *soak) await(ctx context.Context, limit time.Duration, look func(context.Context) []string) (unmet []string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		each, done := context.WithTimeout(ctx, maxWait)
		unmet = look(each)
		done()
		if len(unmet) == 0 || !pause(ctx, glance) {
			return unmet
		}
	}
}

// unsettled returns the conditions that do not hold yet.
func (s *soak) unsettled(ctx context.Context) []string {
	now, err := s.truth.read(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	var unmet []string
	if len(now.nodes) != nodeCount {
		unmet = append(unmet, fmt.Sprintf("%d nodes of %d: %v", len(now.nodes), nodeCount, now.names()))
	}
	exists := map[string]bool{}
	for _, g := range s.fleet.all() {
		exists[g.name] = true
		if lack := s.lack(ctx, now, g); lack != "" {
			unmet = append(unmet, lack)
		}
	}
	for i := range now.pods {
		if pod := &now.pods[i]; pod.Namespace == namespace && !exists[gangOf(pod)] {
			unmet = append(unmet, fmt.Sprintf("pod %s of a gang that was removed still exists", pod.Name))
		}
	}
	left, err := s.truth.leftovers(ctx, now)
	if err != nil {
		return append(unmet, err.Error())
	}
	unmet = append(unmet, left...)
	return append(unmet, now.untrue()...)
}

// lack returns what the gang lacks. A gang that must stay in its cluster, and finds it full, waits correctly and is
// removed.
func (s *soak) lack(ctx context.Context, now *state, g *gang) string {
	bound, clusters := now.members(g)
	if g.required && len(clusters) > 1 {
		s.violate("gang %s must lie in one InfiniBand cluster and lies in %d", g.name, len(clusters))
		s.fleet.remove(ctx, g)
		return ""
	}
	if bound == g.size {
		return ""
	}
	if g.required && len(clusters) == 1 {
		for cluster := range clusters {
			if now.freeIn(cluster) < g.size-bound {
				s.fleet.remove(ctx, g)
				return ""
			}
		}
	}
	why := "no condition"
	if group, err := s.vc.SchedulingV1beta1().PodGroups(namespace).Get(ctx, g.name, metav1.GetOptions{}); err == nil {
		for _, c := range group.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				why = fmt.Sprintf("%s %s: %s", c.Type, c.Reason, cut(c.Message, 300))
			}
		}
	}
	return fmt.Sprintf("gang %s (min %d, required %t) has %d of %d pods bound (%s)", g.name, g.min, g.required, bound, g.size, why)
}

// fill submits a gang that takes all free resources, waits until it is bound, and removes it. If the scheduler
// reserved anything needlessly, the gang would not fit.
func (s *soak) fill(ctx context.Context) (string, error) {
	now, err := s.truth.read(ctx)
	if err != nil {
		return "", err
	}
	s.fleet.mu.Lock()
	s.fleet.counter++
	g := &gang{name: fmt.Sprintf("fill%d", s.fleet.counter), size: now.free(), born: time.Now()}
	g.min = g.size
	s.fleet.gangs[g.name] = g
	s.fleet.mu.Unlock()
	began := time.Now()
	s.fleet.reconcile(ctx)
	unmet := s.await(ctx, recovery, s.unsettled)
	if len(unmet) > 0 && ctx.Err() == nil {
		s.violate("a gang of the %d cpus that are free is not bound: %s", g.size, strings.Join(unmet, "; "))
	}
	took := time.Since(began)
	s.fleet.remove(ctx, g)
	s.fleet.reconcile(ctx)
	gone := s.await(ctx, recovery, func(ctx context.Context) []string {
		now, err := s.truth.read(ctx)
		if err != nil {
			return []string{err.Error()}
		}
		if slices.ContainsFunc(now.pods, func(pod corev1.Pod) bool { return strings.HasPrefix(pod.Name, g.name+"-") }) {
			return []string{"pods of " + g.name + " are there"}
		}
		return nil
	})
	if len(gone) > 0 && ctx.Err() == nil {
		return "", fmt.Errorf("removing the gang that filled the cluster: %v", gone)
	}
	return fmt.Sprintf("a gang of all %d free cpus bound in %.1f s", g.size, took.Seconds()), ctx.Err()
}

func (s *soak) logTails() string {
	var tails []string
	for _, r := range s.replicas {
		if process := r.running(); process != nil {
			tails = append(tails, process.Name()+":\n"+process.LogTail(40))
		}
	}
	return strings.Join(tails, "\n")
}
