// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/history"
)

// observed is the namespace of a spec in the API server, with all versions of its pods and PodGroups.
type observed struct {
	namespace string
	*history.History
}

// bound returns the number of the gang's pods that are on a node now.
func (o observed) bound(g gang) int {
	n := 0
	for _, name := range g.pods() {
		if pod := o.Pod(name); pod != nil && pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// everBound returns the number of the gang's pods that were on a node at any time.
func (o observed) everBound(g gang) int {
	ever := o.EverBound()
	n := 0
	for _, name := range g.pods() {
		if _, ok := ever[name]; ok {
			n++
		}
	}
	return n
}

// eventuallyBound waits until n of the gang's pods are bound.
func (o observed) eventuallyBound(g gang, n int) {
	GinkgoHelper()
	Eventually(func() int { return o.bound(g) }).Should(Equal(n), "bound pods of gang %s", g.name)
}

// phase returns the PodGroup's phase.
func (o observed) phase(g gang) v1beta1.PodGroupPhase {
	if group := o.PodGroup(g.name); group != nil {
		return group.Status.Phase
	}
	return ""
}

func (o observed) eventuallyRunning(g gang) {
	GinkgoHelper()
	Eventually(func() v1beta1.PodGroupPhase { return o.phase(g) }).Should(Equal(v1beta1.PodGroupRunning), "phase of gang %s", g.name)
}

// unschedulable returns the PodGroup's Unschedulable condition while it is true, or nil.
func (o observed) unschedulable(g gang) *v1beta1.PodGroupCondition {
	group := o.PodGroup(g.name)
	if group == nil {
		return nil
	}
	for i, condition := range group.Status.Conditions {
		if condition.Type == v1beta1.PodGroupUnschedulableType && condition.Status == corev1.ConditionTrue {
			return &group.Status.Conditions[i]
		}
	}
	return nil
}

// eventuallyFailed waits until the PodGroup reports that the gang was not bound, for this reason and with all these
// words.
func (o observed) eventuallyFailed(g gang, reason string, words ...string) {
	GinkgoHelper()
	Eventually(func() error {
		condition := o.unschedulable(g)
		if condition == nil {
			return fmt.Errorf("gang %s has no Unschedulable condition", g.name)
		}
		if condition.Reason != reason {
			return fmt.Errorf("reason %s (%s), not %s", condition.Reason, condition.Message, reason)
		}
		for _, word := range words {
			if !strings.Contains(condition.Message, word) {
				return fmt.Errorf("message %q does not say %q", condition.Message, word)
			}
		}
		return nil
	}).Should(Succeed())
}

// leaks returns the plugins' traces for pods that are not bound to the node of the trace, and the missing traces of
// bound pods.
func (o observed) leaks(ctx context.Context, plugins ...string) (string, error) {
	traces, err := kube.CoreV1().ConfigMaps(o.namespace).List(ctx, metav1.ListOptions{LabelSelector: control.PluginLabel})
	if err != nil {
		return "", err
	}
	pods, err := kube.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	var want, got []string
	for _, pod := range pods.Items {
		for _, plugin := range plugins {
			if pod.Spec.NodeName != "" {
				want = append(want, fmt.Sprintf("%s %s (%s) on %s", plugin, pod.Name, pod.UID, pod.Spec.NodeName))
			}
		}
	}
	for _, trace := range traces.Items {
		got = append(got, fmt.Sprintf("%s %s (%s) on %s", trace.Labels[control.PluginLabel],
			trace.Data[control.PodKey], trace.Data[control.UIDKey], trace.Data[control.NodeKey]))
	}
	slices.Sort(want)
	slices.Sort(got)
	return cmp.Diff(want, got), nil
}

// expectNoLeaks expects that the plugins' traces match the bound pods exactly.
func (o observed) expectNoLeaks(ctx context.Context, plugins ...string) {
	GinkgoHelper()
	Eventually(func() (string, error) { return o.leaks(ctx, plugins...) }).Should(BeEmpty(), "traces (-of bound pods +there)")
}

// expectStagedAtomically expects that no version of any pod had a node without the plugins' annotations, or the
// annotations without a node.
func (o observed) expectStagedAtomically(g gang, plugins ...string) {
	GinkgoHelper()
	for _, name := range g.pods() {
		for _, pod := range o.PodVersions(name) {
			for _, plugin := range plugins {
				Expect(pod.Annotations[control.StagedPrefix+plugin]).To(Equal(pod.Spec.NodeName),
					"annotation of plugin %s on pod %s at version %s", plugin, name, pod.ResourceVersion)
			}
		}
	}
}

// journalOf returns the started calls for the pod in the journal.
func (p testPlugins) journalOf(pod string) []string {
	GinkgoHelper()
	journal, err := p.Journal()
	Expect(err).NotTo(HaveOccurred())
	var calls []string
	for _, entry := range journal {
		if entry.Pod == pod && entry.Phase == control.Begin {
			calls = append(calls, string(entry.Call)+" "+entry.Plugin)
		}
	}
	return calls
}

// calls returns the number of started calls in the journal.
func (p testPlugins) calls(call control.Call, plugin, pod string) int {
	GinkgoHelper()
	n := 0
	for _, line := range p.journalOf(pod) {
		if line == string(call)+" "+plugin {
			n++
		}
	}
	return n
}

// versions returns the resource versions of the gang's PodGroup and pods. Equal ones mean that nothing was written.
func (o observed) versions(g gang) map[string]uint64 {
	versions := map[string]uint64{}
	if group := o.PodGroup(g.name); group != nil {
		versions["podgroup "+g.name] = history.Version(group)
	}
	for _, name := range g.pods() {
		if pod := o.Pod(name); pod != nil {
			versions["pod "+name] = history.Version(pod)
		}
	}
	return versions
}

// verdicts returns what each version of the PodGroup reported.
func (o observed) verdicts(g gang) []string {
	var verdicts []string
	for _, version := range o.PodGroupVersions(g.name) {
		status := version.Status
		verdict := fmt.Sprintf("%s, %d run", status.Phase, status.Running)
		for _, condition := range status.Conditions {
			verdict += fmt.Sprintf(", %s %s", condition.Reason, condition.Message)
		}
		verdicts = append(verdicts, verdict)
	}
	return verdicts
}

// eventCount returns how often events about the object with the reason were recorded, including repetitions.
func (o observed) eventCount(kind, name, reason string) int {
	n := 0
	for _, event := range o.Events(kind, name, reason) {
		n += max(1, int(event.Count))
	}
	return n
}
