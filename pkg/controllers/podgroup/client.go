// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	typed "volcano.sh/apis/pkg/client/clientset/versioned/typed/scheduling/v1beta1"
)

const (
	// domain is the suffix of this project's annotation prefixes.
	domain = "volcano-prebind.io"
	// readTimeout limits how long reading all owners of one PodGroup may take.
	readTimeout = 30 * time.Second
)

// client adds this project's annotations of the owners to each PodGroup that it creates or updates.
type client struct {
	vcclient.Interface
	kube kubernetes.Interface
}

// SchedulingV1beta1 implements versioned.Interface.
func (c *client) SchedulingV1beta1() typed.SchedulingV1beta1Interface {
	return &scheduling{c.Interface.SchedulingV1beta1(), c.kube}
}

type scheduling struct {
	typed.SchedulingV1beta1Interface
	kube kubernetes.Interface
}

// PodGroups implements typed.PodGroupsGetter.
func (s *scheduling) PodGroups(namespace string) typed.PodGroupInterface {
	return &podGroups{s.SchedulingV1beta1Interface.PodGroups(namespace), s.kube}
}

type podGroups struct {
	typed.PodGroupInterface
	kube kubernetes.Interface
}

// Create implements typed.PodGroupInterface. If an owner cannot be read, it returns an error, and the caller retries. A
// PodGroup without the owner's annotations could be placed on nodes that these annotations exclude.
func (p *podGroups) Create(ctx context.Context, group *v1beta1.PodGroup, opts metav1.CreateOptions) (*v1beta1.PodGroup, error) {
	if err := p.inherit(ctx, group); err != nil {
		return nil, err
	}
	return p.PodGroupInterface.Create(ctx, group, opts)
}

// Update implements typed.PodGroupInterface. Upstream's controller rebuilds the annotations before an update, so Update
// adds the annotations of owners again.
func (p *podGroups) Update(ctx context.Context, group *v1beta1.PodGroup, opts metav1.UpdateOptions) (*v1beta1.PodGroup, error) {
	if err := p.inherit(ctx, group); err != nil {
		return nil, err
	}
	return p.PodGroupInterface.Update(ctx, group, opts)
}

func (p *podGroups) inherit(ctx context.Context, group *v1beta1.PodGroup) error {
	inherited, err := Inherited(ctx, p.kube, group, group.OwnerReferences)
	for key, value := range inherited {
		if IsOurs(key) {
			metav1.SetMetaDataAnnotation(&group.ObjectMeta, key, value)
		}
	}
	return err
}

// Inherited returns the annotations that the PodGroup inherits from the workloads among its owners.
func Inherited(ctx context.Context, kube kubernetes.Interface, group *v1beta1.PodGroup, owners []metav1.OwnerReference) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	inherited := map[string]string{}
	for _, owner := range owners {
		annotations, err := annotationsOf(ctx, kube, group.Namespace, owner)
		if apierrors.IsNotFound(err) {
			continue // a deleted workload has no pods left to place
		}
		if err != nil {
			return nil, fmt.Errorf("reading the annotations of %s %s/%s for PodGroup %s: %w", owner.Kind, group.Namespace, owner.Name, group.Name, err)
		}
		maps.Copy(inherited, annotations)
	}
	return inherited, nil
}

// annotationsOf returns the annotations of an owner that is a workload. For an owner of another kind it returns none.
func annotationsOf(ctx context.Context, kube kubernetes.Interface, namespace string, owner metav1.OwnerReference) (map[string]string, error) {
	var workload metav1.Object
	var err error
	switch owner.APIVersion + " " + owner.Kind {
	case "apps/v1 ReplicaSet":
		workload, err = kube.AppsV1().ReplicaSets(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	case "apps/v1 DaemonSet":
		workload, err = kube.AppsV1().DaemonSets(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	case "apps/v1 StatefulSet":
		workload, err = kube.AppsV1().StatefulSets(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	case "batch/v1 Job":
		workload, err = kube.BatchV1().Jobs(namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	default:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if workload.GetUID() != owner.UID {
		return nil, nil // a new object with the same name as the deleted owner
	}
	return workload.GetAnnotations(), nil
}

// IsOurs reports whether the key of an annotation belongs to this project.
func IsOurs(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == domain || strings.HasSuffix(prefix, "."+domain)
}
