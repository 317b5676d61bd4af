// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// client is the API client that the plugins of a session get if a kind of devices that upstream shares among pods is
// enabled. While the session is open, writes of upstream's device code stay in the session, and all other calls go to
// the API server. After the session all calls go to the API server, because kube-scheduler's plugins use the client
// even then.
type client struct {
	kubernetes.Interface
	open atomic.Pointer[Staging]
}

func (c *client) CoreV1() corev1.CoreV1Interface {
	if s := c.open.Load(); s != nil {
		return &coreClient{c.Interface.CoreV1(), s}
	}
	return c.Interface.CoreV1()
}

type coreClient struct {
	corev1.CoreV1Interface
	staging *Staging
}

func (c *coreClient) Pods(namespace string) corev1.PodInterface {
	return &podClient{c.CoreV1Interface.Pods(namespace), namespace, c.staging}
}

func (c *coreClient) Nodes() corev1.NodeInterface {
	if len(c.staging.locks.kinds) == 0 {
		return c.CoreV1Interface.Nodes()
	}
	return &nodeClient{c.CoreV1Interface.Nodes(), c.staging.locks}
}

type podClient struct {
	corev1.PodInterface
	namespace string
	staging   *Staging
}

// Patch applies the patch only to the session's pod if the patch adds or removes devices of a pod of the session.
// Otherwise it sends the patch to the API server.
func (p *podClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*v1.Pod, error) {
	changes := annotationChanges(kind, data)
	if len(subresources) == 0 && p.staging.concerns(changes) {
		if pod, ok := p.staging.stage(types.NamespacedName{Namespace: p.namespace, Name: name}, changes); ok {
			return pod, nil
		}
	}
	return p.PodInterface.Patch(ctx, name, kind, data, opts, subresources...)
}

// concerns reports whether upstream's device code made the changes of annotations: one of the annotations lists a pod's
// devices.
func (s *Staging) concerns(changes map[string]*string) bool {
	return slices.ContainsFunc(s.kinds, func(k kind) bool { _, ok := changes[k.holds]; return ok })
}

// annotationChanges returns the annotations that a patch sets, by key. An annotation that the patch removes has the
// value nil. annotationChanges returns nil if the patch changes anything other than annotations.
func annotationChanges(kind types.PatchType, data []byte) map[string]*string {
	switch kind {
	case types.MergePatchType, types.StrategicMergePatchType:
		return mergedAnnotations(data)
	case types.JSONPatchType:
		return patchedAnnotations(data)
	default:
		return nil
	}
}

func mergedAnnotations(data []byte) map[string]*string {
	var patch map[string]map[string]map[string]*string
	if json.Unmarshal(data, &patch) != nil || len(patch) != 1 || len(patch["metadata"]) != 1 {
		return nil
	}
	return patch["metadata"]["annotations"]
}

func patchedAnnotations(data []byte) map[string]*string {
	var operations []struct {
		Op, Path string
		Value    string
	}
	if json.Unmarshal(data, &operations) != nil {
		return nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	changes := map[string]*string{}
	for _, operation := range operations {
		pointer, ok := strings.CutPrefix(operation.Path, "/metadata/annotations/")
		if !ok {
			return nil
		}
		key := unescape.Replace(pointer)
		switch operation.Op {
		case "add", "replace":
			changes[key] = &operation.Value
		case "remove":
			changes[key] = nil
		default:
			return nil
		}
	}
	return changes
}
