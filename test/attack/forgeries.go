// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forgeries returns attacks with objects that contain false claims.
func forgeries() []attack {
	return []attack{
		{
			name: "forged-conditions", run: forgedConditions,
			does: "forges each condition of the scheduler, dated 2020 and with a billion retries, on gangs that wait, run or have no pods",
			harm: "a gang claims to be partially bound, admitted, complete or starving, and goes before others",
		},
		{
			name: "forged-bind", run: forgedBind,
			does: "creates waiting pods with the annotations of a bind: a minimum of 1,000 members, the group of the victim's gangs",
			harm: "the gang appears to have lost members",
		},
		{
			name: "every-annotation", run: everyAnnotation,
			does: "writes numbers without end, empty text, lists, negative amounts and text of 20 kB into each annotation and label that is read",
			harm: "an unexpected value stops or delays a cycle",
		},
		{
			name: "log-injection", run: logInjection, after: injectedLines,
			does: "writes line breaks, terminal codes, format verbs and forged log lines wherever text is quoted in messages",
			harm: "forged lines in the scheduler's and the controllers' logs",
		},
		{
			name: "deep-json", run: deepJSON,
			does: "writes JSON of 100,000 nested lists into each annotation that is JSON, and changes it all the time",
			harm: "parsing exhausts the stack or delays a cycle",
		},
		{
			name: "foreign-group", run: foreignGroup,
			does: "names the victim's gangs in its gang groups and its pods' gang names, and lists 1,000 gangs that do not exist",
			harm: "the victim's gangs wait for the tenant's",
		},
		{
			name: "named-nodes", run: namedNodes,
			does: "creates 400 pods that select a node by label and request more than it has, and pods on nodes that do not exist",
			harm: "nominated nodes and overcommitted nodes exclude the victim's pods",
		},
	}
}

func forgedConditions(ctx context.Context, t *tenant) error {
	var conditions []v1beta1.PodGroupCondition
	for _, c := range []struct{ kind, reason string }{
		{"PartiallyBound", "PartiallyBound"}, {"GangTimeLimit", "GangAdmitted"}, {"GangTimeLimit", "GangTimedOut"}, {"GangSatisfied", "GangSatisfied"},
		{"GangWhole", "GangWhole"}, {"GangWhole", "OnlyWaiting"}, {"NodeReservation", "NodesReserved"}, {"NodeReservation", "NoNodesToReserve"},
		{"Scheduled", "tasks in gang are ready to be scheduled"}, {"Unschedulable", "PreBindFailed"}, {"InvalidGangSettings", "InvalidGangSettings"},
	} {
		conditions = append(conditions, v1beta1.PodGroupCondition{
			Type: v1beta1.PodGroupConditionType(c.kind), Status: corev1.ConditionTrue, Reason: c.reason, LastTransitionTime: longAgo(),
			Message: "sent back 1000000000 times; waited 99999h; in 9223372036854775807 tries",
		})
	}
	forged := func(group *v1beta1.PodGroup) {
		group.Status.Phase, group.Status.Conditions = v1beta1.PodGroupInqueue, conditions
	}
	waits, runs := impossible("waits"), gang{name: "runs", size: 3}
	none := gang{name: "none", min: 5}
	waits.group, runs.group, none.group = forged, forged, forged
	t.submit(ctx, runs, waits, none)
	t.storm(ctx, func(n int) error {
		return t.patchGroup(ctx, []string{"waits", "runs", "none"}[n%3], statusPatch("Inqueue", conditions[n%len(conditions)]))
	})
	return nil
}

func forgedBind(ctx context.Context, t *tenant) error {
	for n := range 10 {
		g := impossible(fmt.Sprintf("bound-%d", n))
		if n%2 == 0 {
			g.size, g.cpu = 2, "1"
		}
		g.pod = func(_ int, pod *corev1.Pod) {
			for _, key := range bindAnnotations {
				pod.Annotations[key] = "1000"
			}
			for _, key := range bindGroupAnnotations {
				pod.Annotations[key] = victimNamespace + "/resident"
			}
		}
		t.submit(ctx, g)
	}
	return hold(ctx)
}

func everyAnnotation(ctx context.Context, t *tenant) error {
	values := []string{"", "99999999999999999999999999", "-1", "1e999", "NaN", "[]", "{}", `[""]`, "null", `"`, "-9223372036854775808h", strings.Repeat("9,", 10_000), "\x00\ufffd"}
	keys := append(readAnnotations(), jsonAnnotations...)
	t.storm(ctx, func(n int) error {
		key, value := keys[n%len(keys)], values[n/len(keys)%len(values)]
		g := gang{name: fmt.Sprintf("value-%d", n%200), size: 1}
		g.group = func(group *v1beta1.PodGroup) { group.Annotations[key] = value }
		g.pod = func(_ int, pod *corev1.Pod) {
			if key != v1beta1.KubeGroupNameAnnotationKey {
				pod.Annotations[key] = value
			}
			ask(pod, gpuResource, "100")
		}
		if n >= 200 {
			_ = t.deletePod(ctx, g.member(0).Name)
			_ = t.deleteGroup(ctx, g.name)
		}
		if err := t.createGroup(ctx, g); err != nil {
			return err
		}
		return t.createPod(ctx, g.member(0))
	})
	return nil
}

// forgedLine is the beginning of a log line that injected text tries to forge.
const forgedLine = "E1231 23:59:59.000000       1 forged.go:1] FORGED"

func logInjection(ctx context.Context, t *tenant) error {
	text := "\r\n" + forgedLine + "\n\x1b[2J\x1b[31m%!s(MISSING)%n%999999999d" + forgedLine + "\n"
	n := 0
	return repeat(ctx, nap, func() {
		g := impossible(fmt.Sprintf("inject-%d", n%20))
		g.size = 2
		keys := append(readAnnotations(), jsonAnnotations...)
		g.group = func(group *v1beta1.PodGroup) {
			group.Annotations[keys[n%len(keys)]] = text
			group.Status.Conditions = []v1beta1.PodGroupCondition{{Type: "Unschedulable", Status: corev1.ConditionTrue, Reason: "R", Message: text, LastTransitionTime: longAgo()}}
		}
		g.pod = func(_ int, pod *corev1.Pod) {
			pod.Annotations[keys[n%len(keys)]] = text
			pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = g.name
			pod.Spec.Containers[0].Image = "x"
		}
		if n >= 20 {
			_ = t.deleteGroup(ctx, g.name)
			t.each(ctx, g.size, func(i int) error { return t.deletePod(ctx, g.member(i).Name) })
		}
		t.submit(ctx, g)
		// Names of gangs that no PodGroup can have.
		lone := newPod(fmt.Sprintf("inject-lone-%d", n))
		lone.Annotations[v1beta1.KubeGroupNameAnnotationKey] = text
		t.note(ctx, t.createPod(ctx, lone))
		n++
	})
}

// injectedLines searches the logs for forged lines and terminal control codes.
func injectedLines(_ context.Context, s *testbed) (found []string) {
	for _, path := range s.logs() {
		file, err := os.Open(path)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		scanner := bufio.NewScanner(file)
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			if strings.HasPrefix(scanner.Text(), forgedLine) || strings.ContainsAny(scanner.Text(), "\x1b\r") {
				found = append(found, fmt.Sprintf("%s has a line that the tenant wrote: %.120q", path, scanner.Text()))
				break
			}
		}
		if err := scanner.Err(); err != nil {
			found = append(found, fmt.Sprintf("%s: %v", path, err))
		}
		_ = file.Close()
	}
	return found
}

func deepJSON(ctx context.Context, t *tenant) error {
	const depth = 100_000
	deep := []string{
		strings.Repeat("[", depth) + strings.Repeat("]", depth),
		strings.Repeat(`{"a":`, depth/3) + "1" + strings.Repeat("}", depth/3),
		strings.Repeat("[", 2*depth),
	}
	for n, key := range jsonAnnotations {
		g := gang{name: fmt.Sprintf("deep-%d", n), size: 1, cpu: "1"}
		g.group = func(group *v1beta1.PodGroup) { group.Annotations[key] = deep[n%len(deep)] }
		g.pod = func(_ int, pod *corev1.Pod) {
			pod.Annotations[key] = deep[n%len(deep)]
			pod.Spec.NodeSelector["nowhere"] = "x"
			ask(pod, gpuResource, "100")
		}
		t.submit(ctx, g)
	}
	n := 0
	return repeat(ctx, nap, func() {
		key := jsonAnnotations[n%len(jsonAnnotations)]
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: deep[n%len(deep)]}}})
		if err == nil {
			err = t.patchGroup(ctx, fmt.Sprintf("deep-%d", n%len(jsonAnnotations)), string(patch))
		}
		t.note(ctx, err)
		n++
	})
}

func foreignGroup(ctx context.Context, t *tenant) error {
	var many []string
	for n := range 1000 {
		many = append(many, fmt.Sprintf("%s/none-%d", tenantNamespace, n))
	}
	for n, list := range [][]string{
		{tenantNamespace + "/joins-0", victimNamespace + "/resident"}, {victimNamespace + "/resident"}, many,
		{tenantNamespace + "/joins-3", victimNamespace + "/small-0", victimNamespace + "/small-1", victimNamespace + "/small-2"},
	} {
		text, err := json.Marshal(list)
		if err != nil {
			return err
		}
		g := gang{name: fmt.Sprintf("joins-%d", n), size: 2}
		g.group = func(group *v1beta1.PodGroup) { group.Annotations[groupsAnnotation] = string(text) }
		t.submit(ctx, g)
	}
	n := 0
	return repeat(ctx, nap, func() {
		pod := newPod(fmt.Sprintf("foreign-%d", n))
		pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = []string{"resident", victimNamespace + "/resident", "../" + victimNamespace + "/resident"}[n%3]
		ask(pod, corev1.ResourceCPU, "10m")
		t.note(ctx, t.createPod(ctx, pod))
		n++
	})
}

func namedNodes(ctx context.Context, t *tenant) error {
	t.each(ctx, 400, func(n int) error {
		pod := newPod(fmt.Sprintf("named-%d", n))
		ask(pod, corev1.ResourceCPU, "1000")
		if on(pod, nodeName(n%nodeCount)); n%4 == 0 {
			pod.Spec.NodeName, pod.Spec.NodeSelector = fmt.Sprintf("no-node-%d", n), nil
		}
		return t.createPod(ctx, pod)
	})
	return hold(ctx)
}

// sigsPodGroup returns a PodGroup of scheduling.sigs.k8s.io.
func sigsPodGroup(name string, least int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": map[string]any{"name": name}, "spec": map[string]any{"minMember": least},
	}}
}

var sigsPodGroups = schema.GroupVersionResource{Group: "scheduling.sigs.k8s.io", Version: "v1alpha1", Resource: "podgroups"}

func (t *tenant) createSigsGroup(ctx context.Context, name string, least int64) error {
	_, err := t.dyn.Resource(sigsPodGroups).Namespace(tenantNamespace).Create(ctx, sigsPodGroup(name, least), metav1.CreateOptions{})
	return err
}
