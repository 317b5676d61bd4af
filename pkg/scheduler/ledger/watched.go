// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
)

// errGangGone is why members are not bound if their PodGroup was deleted. It does not count as a failure of the gang.
var errGangGone = errors.New("does not exist")

func deletedPodGroup(gang api.JobID) error { return fmt.Errorf("PodGroup %s %w", gang, errGangGone) }

func deletedNode(name string) error { return fmt.Errorf("node %s was deleted", name) }

// watched lists the objects that the watch shows. The watch may show changes that the books do not contain yet.
type watched struct {
	pods        corelisters.PodLister
	nodes       corelisters.NodeLister
	podGroups   vclisters.PodGroupLister
	podGroupsAt func() string
}

// pod returns the latest version of the pod; nil if the watch does not show the pod with this UID.
func (w *watched) pod(pod *v1.Pod) *v1.Pod {
	latest, err := w.pods.Pods(pod.Namespace).Get(pod.Name)
	if err != nil || latest.UID != pod.UID {
		return nil
	}
	return latest
}

// hasNode reports whether the watch shows the node.
func (w *watched) hasNode(name string) bool {
	_, err := w.nodes.Get(name)
	return err == nil
}

// isDeleted reports whether the gang's PodGroup was deleted. This is so if the watch does not show the PodGroup,
// although the watch has already delivered the version that the books have.
func (w *watched) isDeleted(gang api.JobID, version string) bool {
	namespace, name, err := cache.SplitMetaNamespaceKey(string(gang))
	if err != nil {
		return false
	}
	_, err = w.podGroups.PodGroups(namespace).Get(name)
	return apierrors.IsNotFound(err) && !apiwrite.OlderVersion(w.podGroupsAt(), version)
}
