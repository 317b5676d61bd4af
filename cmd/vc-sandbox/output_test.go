// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	err := writeTable(&out, []row{
		{what: "gang a", wanted: 4, bound: 4, where: "ib-0 (4 nodes)", took: 17*time.Millisecond + 600*time.Microsecond, why: "all bound"},
		{what: "gang with a long name", wanted: 100, took: 1640 * time.Millisecond, why: "waits: NotEnoughResources"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "" +
		"WHAT                    WANTED   BOUND   WHERE            TIME    OUTCOME\n" +
		"gang a                  4        4       ib-0 (4 nodes)   17 ms   all bound\n" +
		"gang with a long name   100      0       -                1.6 s   waits: NotEnoughResources\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestShort(t *testing.T) {
	cases := map[time.Duration]string{
		0:                       "0 ms",
		999 * time.Millisecond:  "999 ms",
		1260 * time.Millisecond: "1.3 s",
		95 * time.Second:        "1m35s",
	}
	for d, want := range cases {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	got := quote("one two\nthree a-word-longer-than-a-line four", 9)
	want := "      │ one two\n      │ three\n      │ a-word-longer-than-a-line\n      │ four\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("quote (-want +got):\n%s", diff)
	}
}

func TestTicks(t *testing.T) {
	var out strings.Builder
	if n, err := (&ticks{out: &out}).Write([]byte("etcd is ready\nkwok is ready\n")); n != 28 || err != nil {
		t.Errorf("Write returned %d, %v", n, err)
	}
	if want := "  ✓ etcd is ready\n  ✓ kwok is ready\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestMetric(t *testing.T) {
	text := []byte("# HELP volcano_bind_transactions_in_flight Bind transactions.\n" +
		"volcano_bind_transactions_in_flight 3\n" +
		`volcano_prebind_rollback_total{plugin="other",result="ok"} 7` + "\n" +
		`volcano_prebind_rollback_total{plugin="bindpolicy",result="ok"} 1e+02` + "\n")
	cases := map[string]float64{inFlightMetric: 3, rollbackMetric: 100, rolledBackMetric: 0}
	for name, want := range cases {
		if got := metric(text, name); got != want {
			t.Errorf("metric %s = %v, want %v", name, got, want)
		}
	}
}

func TestCheckRefusal(t *testing.T) {
	good := `PreBindFailed: pre-bind plugin bindpolicy failed for pod default/train-b-3 on node n5: quarantine: xid-79`
	g := gang{name: "train-b"}
	checkError(t, checkRefusal(good, g, "n5"), nil)
	for what, part := range map[string]string{"plugin": "bindpolicy", "pod": "train-b-3", "node": "n5", "error": "xid-79"} {
		checkError(t, checkRefusal(strings.ReplaceAll(good, part, "something"), g, "n5"), []string{"does not name the " + what})
	}
}

func TestWhere(t *testing.T) {
	opts := defaultOptions()
	clusters, err := stage(opts)
	if err != nil {
		t.Fatal(err)
	}
	on := func(nodes ...string) []*corev1.Pod {
		pods := make([]*corev1.Pod, len(nodes))
		for i, node := range nodes {
			pods[i] = &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
		}
		return pods
	}
	cases := map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"nowhere":         {},
		"one cluster":     {pods: on("node-0000", "node-0003", "node-0003"), want: "ib-0 (2 nodes)"},
		"across clusters": {pods: on("node-0000", "node-0011"), want: "ib-0 (1 node), ib-2 (1 node)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := (&story{clusters: clusters}).where(tc.pods); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// bound returns a pod that is bound to the node, with the devices annotation.
func bound(name, node, devices string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.DeviceAllocatedAnnotation: devices}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
}

func TestBoards(t *testing.T) {
	boards := []*v1alpha1.Device{controlplane.EightGPUs("n0"), controlplane.EightGPUs("n1")}
	users := usage{}
	for _, pod := range []*corev1.Pod{
		bound("dev-0", "n0", `{"gpu":[{"minor":0}]}`),
		bound("g-0", "n0", `{"gpu":[{"minor":2},{"minor":3}],"rdma":[{"minor":2}]}`),
		bound("g-1", "n1", `{"gpu":[{"minor":0},{"minor":1}],"rdma":[{"minor":2}]}`),
	} {
		if err := users.add(pod); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := drawBoards(&out, boards[:1], users); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"      n0     │ NUMA 0 pcie-0  │ NUMA 0 pcie-1  │ NUMA 1 pcie-2  │ NUMA 1 pcie-3\n" +
		"        GPU  │ 0 dev-0        │ 2 g-0          │ 4 ·            │ 6 ·\n" +
		"        GPU  │ 1 ·            │ 3 g-0          │ 5 ·            │ 7 ·\n" +
		"        NIC  │ 1 ·            │ 2 g-0          │ 3 ·            │ 4 ·\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("drawing (-want +got):\n%s", diff)
	}
	if got := users.of("g-0").String(); got != "GPUs 2, 3 and NIC 2" {
		t.Errorf("g-0 has %q", got)
	}
	checkError(t, checkSwitch(boards, users.of("g-0")), nil)
	checkError(t, checkSwitch(boards, users.of("g-1")), []string{"found 2 switches"})
	checkError(t, checkSwitch(boards, users.of("dev-0")), []string{"want two GPUs and a NIC"})
	checkError(t, users.add(bound("other", "n0", `{"rdma":[{"minor":2}]}`)), []string{"rdma 2 of node n0", "g-0", "other"})
	checkError(t, users.add(bound("none", "n0", "")), []string{"pod none"})
}
