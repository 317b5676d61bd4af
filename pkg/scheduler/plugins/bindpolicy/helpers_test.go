// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// arguments parses the plugin's arguments from YAML. Nested mappings have type map[string]any.
func arguments(t *testing.T, text string) framework.Arguments {
	t.Helper()
	args := framework.Arguments{}
	if err := yaml.Unmarshal([]byte(text), &args); err != nil {
		t.Fatalf("reading arguments: %v", err)
	}
	return args
}

// anyKeys converts each mapping to type map[any]any.
func anyKeys(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[any]any{}
		for key, inner := range v {
			out[key] = anyKeys(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = anyKeys(inner)
		}
		return out
	}
	return value
}

// handle implements the parts of framework.Handle that the plugin uses. Other methods are those of a nil Handle.
type handle struct {
	framework.Handle
	kube *kubefake.Clientset
	vc   *vcfake.Clientset
}

func (h *handle) KubeClient() kubernetes.Interface { return h.kube }
func (h *handle) VCClient() vcclient.Interface     { return h.vc }

// cluster describes pod ns/p of PodGroup ns/g on node n, as the API server has them.
type cluster struct {
	pod      *corev1.Pod
	node     *corev1.Node
	podGroup *schedulingv1beta1.PodGroup
}

func newCluster() *cluster {
	return &cluster{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "p", UID: "pod-uid",
				Annotations: map[string]string{schedulingv1beta1.KubeGroupNameAnnotationKey: "g"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/train:1"}}},
		},
		node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}},
		podGroup: &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
			Spec:       schedulingv1beta1.PodGroupSpec{MinMember: 4, Queue: "research"},
		},
	}
}

// handle returns a handle whose clients serve the objects of the cluster. An object that is nil does not exist.
func (c *cluster) handle() *handle {
	h := &handle{kube: kubefake.NewClientset(), vc: vcfake.NewSimpleClientset()}
	if c.pod != nil {
		_ = h.kube.Tracker().Add(c.pod)
	}
	if c.node != nil {
		_ = h.kube.Tracker().Add(c.node)
	}
	if c.podGroup != nil {
		_ = h.vc.Tracker().Add(c.podGroup)
	}
	return h
}

// newTask returns the task of the pod, as in the session's snapshot.
func newTask(name string) *api.TaskInfo {
	pod := newCluster().pod
	pod.Name, pod.UID = name, types.UID("pod-uid")
	return api.NewTaskInfo(pod)
}

// newPlugin creates the plugin with arguments in YAML.
func newPlugin(t *testing.T, h framework.Handle, args string) *plugin {
	t.Helper()
	built, err := Spec().New(arguments(t, args), h)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return built.(*plugin)
}
