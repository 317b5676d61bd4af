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
	"k8s.io/apimachinery/pkg/types"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

const (
	preBindFailed   = "PreBindFailed"
	quarantineLabel = "quarantine"
	quoteWidth      = 100
	// leastBackoff is the shortest backoff of a gang after its first failed transaction, unless a change in the cluster
	// ends the backoff earlier.
	leastBackoff = time.Second
)

// refused shows a failed pre-bind step. A gang needs every node of a cluster, and plugin bindpolicy refuses one of the
// nodes because of a label that placement ignores. No member is bound. As soon as the label is removed, the gang is
// bound.
func (s *story) refused(ctx context.Context) error {
	c := s.clusters[0]
	bad := c.nodes[1].Name
	g := newGang("train-c", c)
	if err := s.remove(ctx, s.inTheWay[0]); err != nil {
		return err
	}
	if err := s.quarantine(ctx, bad, "xid-79"); err != nil {
		return err
	}
	s.say("%s: %d pods, a whole node of %s each, minMember %d; %s has the label quarantine=xid-79", g.name, g.members, c.name, g.members, bad)
	if err := s.submit(ctx, g); err != nil {
		return err
	}
	took, why, err := s.awaitRefusal(ctx, time.Now(), g)
	if err != nil {
		return err
	}
	if err := checkRefusal(why, g, bad); err != nil {
		return err
	}
	undone, err := s.awaitRollback(ctx)
	if err != nil {
		return err
	}
	if _, bound := s.view.placed(g.labels()); len(bound) > 0 {
		return fmt.Errorf("%d pods of gang %s are bound although its pre-bind failed", len(bound), g.name)
	}
	s.tick("no pod is bound, %d pre-bind steps rolled back, nothing reserved; the PodGroup reports after %s:", undone, short(took))
	fmt.Fprint(s.out, quote(why, quoteWidth))
	s.addRow("gang "+g.name, g, took, preBindFailed+": bindpolicy refused "+bad+", all rolled back")

	lifted := time.Now()
	if err := s.quarantine(ctx, bad, ""); err != nil {
		return err
	}
	took, err = s.awaitBound(ctx, lifted, g)
	if err != nil {
		return err
	}
	why = "all bound"
	if took < leastBackoff {
		why = "all bound, the node's change ended the backoff"
	}
	s.tick("%s leaves quarantine: all %d bound %s later", bad, g.members, short(took))
	s.addRow("  "+bad+" in order again", g, took, why)
	return nil
}

// moves shows a gang that moves to another cluster. Two clusters can hold the gang, and plugin bindpolicy refuses a
// node of the cluster where the gang is placed first. The whole gang is then placed in the other cluster.
func (s *story) moves(ctx context.Context) error {
	for _, former := range []gang{newGang("train-c", s.clusters[0]), s.done} {
		if err := s.remove(ctx, former); err != nil {
			return err
		}
	}
	first, other := s.freeClusters()
	bad := first.nodes[1].Name
	if err := s.quarantine(ctx, bad, "xid-79"); err != nil {
		return err
	}
	g := s.sharing("train-d", len(first.nodes))
	s.say("%s: %d pods, a whole node each, all in any one cluster; %s and %s are free, %s in %s has the label quarantine=xid-79",
		g.name, g.members, first.name, other.name, bad, first.name)
	began := time.Now()
	if err := s.submit(ctx, g); err != nil {
		return err
	}
	_, why, err := s.awaitRefusal(ctx, began, g)
	if err != nil {
		return err
	}
	if err := checkRefusal(why, g, bad); err != nil {
		return err
	}
	took, err := s.awaitIn(ctx, began, g, other)
	if err != nil {
		return err
	}
	s.tick("refused in %s and rolled back; all %d bound in %s %s after the gang was created", first.name, g.members, other.name, short(took))
	s.addRow("gang "+g.name, g, took, "moved as a whole, after a refusal in "+first.name)
	s.done = g
	return s.quarantine(ctx, bad, "")
}

// vcjob shows a Volcano Job. The controller manager creates the PodGroup and pods of the Job, and the pods are bound as
// a gang.
func (s *story) vcjob(ctx context.Context) error {
	c := s.clusters[2]
	if err := s.remove(ctx, s.done); err != nil {
		return err
	}
	j := job("mpi", len(c.nodes)-1, c)
	g := gang{name: j.Name, members: int(j.Spec.MinAvailable), cluster: c, label: batchv1alpha1.JobNameKey}
	s.say("%s: a launcher and %s in %s, through the controller manager", j.Name, count(g.members-1, "worker"), c.name)
	if _, err := s.vc.BatchV1alpha1().Jobs(namespace).Create(ctx, j, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating vcjob %s: %w", j.Name, err)
	}
	// The times until the pods are bound and the Job runs are measured from here, after the creation. kube-apiserver
	// delays the first creations of a newly installed kind by two seconds.
	began := time.Now()
	bound, err := s.awaitBound(ctx, began, g)
	if err != nil {
		return err
	}
	took, err := s.view.await(ctx, began, "vcjob "+j.Name+" is Running", func() (bool, string) {
		phase := batchv1alpha1.JobPhase("unknown")
		if job, err := s.view.jobs.Jobs(namespace).Get(j.Name); err == nil {
			phase = job.Status.State.Phase
		}
		return phase == batchv1alpha1.Running, fmt.Sprintf("it is %s", phase)
	})
	if err != nil {
		return err
	}
	s.tick("all %d bound %s after the job was created, the job is Running after %s", g.members, short(bound), short(took))
	s.addRow("vcjob "+j.Name, g, bound, "Running")
	return nil
}

// quarantine sets the node's label quarantine, or removes it if the reason is empty.
func (s *story) quarantine(ctx context.Context, node, reason string) error {
	value := "null"
	if reason != "" {
		value = fmt.Sprintf("%q", reason)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, quarantineLabel, value)
	if _, err := s.kube.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("labelling node %s: %w", node, err)
	}
	return nil
}

// addRow adds a row with the current state of the gang to the table at the end of the demo.
func (s *story) addRow(what string, g gang, took time.Duration, why string) {
	_, bound := s.view.placed(g.labels())
	s.rows = append(s.rows, row{what: what, wanted: g.members, bound: len(bound), where: s.where(bound), took: took, why: why})
}

// where returns a text that names the InfiniBand clusters of the pods' nodes.
func (s *story) where(pods []*corev1.Pod) string {
	var parts []string
	for _, c := range s.clusters {
		nodes := map[string]bool{}
		for _, pod := range pods {
			if slices.ContainsFunc(c.nodes, func(n *corev1.Node) bool { return n.Name == pod.Spec.NodeName }) {
				nodes[pod.Spec.NodeName] = true
			}
		}
		if len(nodes) > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s)", c.name, count(len(nodes), "node")))
		}
	}
	return strings.Join(parts, ", ")
}

// complaint returns the reason and message of the PodGroup's condition Unschedulable; empty without such a condition.
func (s *story) complaint(g gang) (reason, text string) {
	pg, err := s.view.podGroups.PodGroups(namespace).Get(g.name)
	if err != nil {
		return "", ""
	}
	for _, c := range pg.Status.Conditions {
		if c.Type == schedulingv1beta1.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			return c.Reason, c.Reason + ": " + c.Message
		}
	}
	return "", ""
}
