// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/ascend/mindcluster/ascend310p/vnpu"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestAnnotationChanges(t *testing.T) {
	set := func(value string) *string { return &value }
	tests := map[string]struct {
		kind types.PatchType
		data string
		want map[string]*string
	}{
		"strategic merge": {types.StrategicMergePatchType, `{"metadata":{"annotations":{"a":"1","b/c":null}}}`, map[string]*string{"a": set("1"), "b/c": nil}},
		"merge":           {types.MergePatchType, `{"metadata":{"annotations":{"a":"1"}}}`, map[string]*string{"a": set("1")}},
		"JSON patch": {
			types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/v~1a~0b","value":"1"},{"op":"remove","path":"/metadata/annotations/c"}]`,
			map[string]*string{"v/a~b": set("1"), "c": nil},
		},
		"merge with more metadata":   {types.MergePatchType, `{"metadata":{"annotations":{"a":"1"},"labels":{"b":"2"}}}`, nil},
		"merge with more than that":  {types.MergePatchType, `{"metadata":{"annotations":{"a":"1"}},"spec":{"nodeName":{"x":"n"}}}`, nil},
		"merge of something else":    {types.MergePatchType, `{"spec":{"nodeName":"n"}}`, nil},
		"JSON patch with a test":     {types.JSONPatchType, `[{"op":"test","path":"/metadata/annotations/a","value":"1"}]`, nil},
		"JSON patch of all of them":  {types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations","value":{"a":"1"}}]`, nil},
		"JSON patch of other fields": {types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/a","value":"1"},{"op":"add","path":"/metadata/labels/b","value":"1"}]`, nil},
		"apply":                      {types.ApplyPatchType, `{"metadata":{"annotations":{"a":"1"}}}`, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, annotationChanges(tt.kind, []byte(tt.data))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// staged returns a staging with the pods, the first of them pending, and the client that plugins get.
func staged(pods ...*v1.Pod) (*Staging, *client, *kubefake.Clientset) {
	kube := kubefake.NewClientset()
	for _, pod := range pods {
		if err := kube.Tracker().Add(pod.DeepCopy()); err != nil {
			panic(err)
		}
	}
	kinds := []kind{{name: "gpu", holds: "gpus", asks: func(*v1.Pod) bool { return true }}}
	s := &Staging{
		kinds: kinds, locks: newNodeLocks(kinds), before: map[api.TaskID]map[string]*string{},
		ssn:     &vcframework.Session{PodLister: &vcframework.PodLister{CachedPods: map[api.TaskID]*v1.Pod{}}},
		pending: map[api.TaskID]map[string]string{api.TaskID(pods[0].UID): nil}, pods: map[types.NamespacedName]*v1.Pod{},
	}
	for _, pod := range pods {
		s.pods[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
	}
	s.client = &client{Interface: kube}
	s.client.open.Store(s)
	return s, s.client, kube
}

func TestOnlyWritesOfDevicesStayInTheSession(t *testing.T) {
	const devices, others = `{"metadata":{"annotations":{"gpus":"0"}}}`, `{"metadata":{"annotations":{"note":"0"}}}`
	tests := map[string]struct {
		pod, patch  string
		subresource []string
		closed      bool
		// written reports whether the API server was written to. staged is the annotation of the session's pod.
		written bool
		staged  string
	}{
		"devices of a pending pod":           {pod: "p", patch: devices, staged: "0"},
		"devices of a running pod":           {pod: "r", patch: devices, staged: "7"},
		"devices of a pod of others":         {pod: "x", patch: devices, written: true},
		"another annotation":                 {pod: "p", patch: others, written: true},
		"devices in a status":                {pod: "p", patch: devices, subresource: []string{"status"}, written: true},
		"devices when the session is closed": {pod: "p", patch: devices, closed: true, written: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pending, running := schedtest.MakePod().Name("p").Obj(), schedtest.MakePod().Name("r").Annotation("gpus", "7").Node("n").Obj()
			_, client, kube := staged(pending, running)
			if err := kube.Tracker().Add(schedtest.MakePod().Name("x").Obj()); err != nil {
				t.Fatal(err)
			}
			core := client.CoreV1()
			if tt.closed {
				client.open.Store(nil)
				core = client.CoreV1()
			}
			if _, err := core.Pods(schedtest.Namespace).Patch(t.Context(), tt.pod, types.MergePatchType, []byte(tt.patch), metav1.PatchOptions{}, tt.subresource...); err != nil {
				t.Fatal(err)
			}
			if written := len(kube.Actions()) > 0; written != tt.written {
				t.Errorf("written to the API server: %t, want %t", written, tt.written)
			}
			for _, pod := range []*v1.Pod{pending, running} {
				if pod.Name == tt.pod && pod.Annotations["gpus"] != tt.staged {
					t.Errorf("the session's pod has devices %q, want %q", pod.Annotations["gpus"], tt.staged)
				}
			}
		})
	}
}

// TestUnstageRestores checks that Unstage restores the annotations from before the first write, whatever was written
// since, and leaves the annotations of other plugins.
func TestUnstageRestores(t *testing.T) {
	pod := schedtest.MakePod().Name("p").Annotation("time", "old").Obj()
	s, client, _ := staged(pod)
	task := api.NewTaskInfo(pod)
	for _, patch := range []string{
		`{"metadata":{"annotations":{"gpus":"0","time":"1"}}}`, `{"metadata":{"annotations":{"gpus":"1","time":"2"}}}`, `{"metadata":{"annotations":{"gpus":null}}}`,
	} {
		if _, err := client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), "p", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		pod.Annotations["rank"] = "3"
	}
	if diff := cmp.Diff(map[string]string{"time": "2", "rank": "3"}, pod.Annotations); diff != "" {
		t.Errorf("annotations with the writes (-want +got):\n%s", diff)
	}
	s.unstage(task)
	if diff := cmp.Diff(map[string]string{"time": "old", "rank": "3"}, pod.Annotations); diff != "" {
		t.Errorf("annotations afterwards (-want +got):\n%s", diff)
	}
}

// TestMindClusterChips checks that the ledgers of MindCluster NPUs count the placements of a session, and no longer
// count a reverted placement. Upstream builds these ledgers from ConfigMaps when a session opens, and does not record
// placements in them.
func TestMindClusterChips(t *testing.T) {
	vnpu.AscendMindClusterVNPUEnable = true
	t.Cleanup(func() { vnpu.AscendMindClusterVNPUEnable = false })
	chip := func(id string, used, free int) *vnpu.VChip {
		return &vnpu.VChip{
			Name: "Ascend310P-" + id, PodMap: map[string]*v1.Pod{}, TotalRes: vnpu.VResource{Aicore: 8, Aicpu: 7},
			UsedRes: vnpu.VResource{Aicore: used, Aicpu: used}, FreeRes: vnpu.VResource{Aicore: free, Aicpu: free - 1},
		}
	}
	pod := func(name string) *v1.Pod {
		return schedtest.MakePod().Name(name).Label(vnpu.JobKindKey, vnpu.JobKind310PValue).Limit(schedtest.Resources{vnpu.AscendNPUCore: "2"}).Annotation(vnpu.AscendNPUCore, "0-vir02_1c").Obj()
	}
	node := api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj())
	ledger := vnpu.NewNPUDevices("n", node.Node)
	ledger.ServerType, ledger.TotalChipNum, ledger.AiCorePerChip, ledger.TotalRes = "Ascend310P-8", 2, 8, vnpu.VResource{Aicore: 16, Aicpu: 14}
	ledger.Chips[0], ledger.Chips[1] = chip("0", 2, 6), chip("1", 0, 8) // p0 is recorded, as the plugin does.
	node.Others[vnpu.DeviceName] = ledger
	add := func(pod *v1.Pod) *api.TaskInfo {
		task := api.NewTaskInfo(pod)
		node.Tasks[api.PodKey(pod)] = task
		return task
	}
	add(pod("p0"))
	s := &Staging{kinds: switchedOn(), opened: map[string]chips{"n": chips{ledger.Chips, ledger.ConCache}.clone()}, pending: map[api.TaskID]map[string]string{"ns-p1": nil}}
	free := func() []int { return []int{ledger.Chips[0].FreeRes.Aicore, ledger.Chips[1].FreeRes.Aicore} }

	placed := add(pod("p1"))
	for range 2 {
		s.book(node)
		if diff := cmp.Diff([]int{4, 8}, free()); diff != "" {
			t.Errorf("free cores with one pod placed (-want +got):\n%s", diff)
		}
	}
	delete(node.Tasks, api.PodKey(placed.Pod))
	s.book(node)
	if diff := cmp.Diff([]int{6, 8}, free()); diff != "" {
		t.Errorf("free cores after it was taken back (-want +got):\n%s", diff)
	}
	if ledger.Chips[0].SegmentFlag || len(ledger.ConCache) > 0 {
		t.Errorf("the ledger keeps traces of it: segmented %t, templates in use %v", ledger.Chips[0].SegmentFlag, ledger.ConCache)
	}
}
