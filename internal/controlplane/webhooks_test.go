// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

// unreachable is an address where no webhook answers.
const unreachable = "https://127.0.0.1:1"

// createsPodsWithoutWebhooks checks which pods the chart's webhooks block while none of them answers. With the
// default values they block no pod. With the webhooks of pods enabled they block only pods of the chart's schedulers.
func createsPodsWithoutWebhooks(t *testing.T, cp *ControlPlane, client kubernetes.Interface) {
	volcano, err := vcclient.NewForConfig(cp.Config())
	do(t, err)
	t.Cleanup(func() { removeWebhooks(t, client) })

	do(t, installWebhooks(t.Context(), cp.Config(), manifestPath, unreachable))
	// A rejected PodGroup shows that the webhook configurations are in force.
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{GenerateName: "unseen-"}, Spec: schedulingv1beta1.PodGroupSpec{MinMember: 1}}
	eventuallyRejected(t, func(ctx context.Context) error {
		_, err := volcano.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Create(ctx, group, metav1.CreateOptions{})
		return err
	})
	for _, scheduler := range []string{corev1.DefaultSchedulerName, "volcano"} {
		do(t, createPod(t.Context(), client, scheduler))
	}

	do(t, installWebhooks(t.Context(), cp.Config(), filepath.Join("internal", "controlplane", "testdata", "pod-webhooks.yaml"), unreachable))
	for _, scheduler := range []string{"volcano", "second"} {
		eventuallyRejected(t, func(ctx context.Context) error { return createPod(ctx, client, scheduler) })
	}
	do(t, createPod(t.Context(), client, corev1.DefaultSchedulerName))
}

func createPod(ctx context.Context, client kubernetes.Interface, scheduler string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: scheduler + "-"},
		Spec:       corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	_, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func eventuallyRejected(t *testing.T, create func(context.Context) error) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := create(ctx); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("the answer is %v, want that the webhook could not be called", err)
		}
		return nil
	})
}

// removeWebhooks deletes the installed webhook configurations, and the pods that were created in the meantime.
func removeWebhooks(t *testing.T, client kubernetes.Interface) {
	ctx := context.WithoutCancel(t.Context())
	admission := client.AdmissionregistrationV1()
	do(t, admission.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		admission.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		client.CoreV1().Pods(metav1.NamespaceDefault).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{}))
}
