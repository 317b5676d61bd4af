// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

// TestControlPlane tests the whole life of a control plane: start, install, simulate, lose the API server, stop. It
// is one test because a control plane takes seconds to start.
func TestControlPlane(t *testing.T) {
	cp, err := Start(t.Context(), Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name string
		run  func(*testing.T, *ControlPlane, kubernetes.Interface)
	}{
		{"CRDs and chart are installed", installs},
		{"nodes are simulated", simulatesNodes},
		{"a bound pod runs, completes when told so and is deleted", simulatesPods},
		{"a pod in the place of one that was deleted stays", simulatesPodsAgain},
		{"the scheduler's account may do what the chart grants", grantsRBAC},
		{"pods are created while no webhook answers", createsPodsWithoutWebhooks},
		{"the API server comes back with its data", restartsAPIServer},
		{"a component that dies is reported with its log", reportsDeath},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, cp, client) }) {
			return
		}
	}
	leavesNothing(t, cp)
}

func installs(t *testing.T, cp *ControlPlane, _ kubernetes.Interface) {
	if err := cp.InstallCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cp.InstallChart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A second InstallChart changes nothing.
	if err := cp.InstallChart(t.Context()); err != nil {
		t.Fatal(err)
	}
	client, err := vcclient.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	writesStatus(t, client)
}

// writesStatus writes statuses as upstream's scheduler and controllers do: a PodGroup's status with the object, and a
// queue's through the subresource.
func writesStatus(t *testing.T, client vcclient.Interface) {
	t.Helper()
	groups := client.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault)
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "status"}, Spec: schedulingv1beta1.PodGroupSpec{MinMember: 1}}
	group, err := groups.Create(t.Context(), group, metav1.CreateOptions{})
	do(t, err)
	group.Status.Phase = schedulingv1beta1.PodGroupInqueue
	group, err = groups.Update(t.Context(), group, metav1.UpdateOptions{})
	do(t, err)
	if group.Status.Phase != schedulingv1beta1.PodGroupInqueue {
		t.Errorf("an update left the PodGroup's phase at %q", group.Status.Phase)
	}
	do(t, groups.Delete(t.Context(), group.Name, metav1.DeleteOptions{}))

	queues := client.SchedulingV1beta1().Queues()
	queue, err := queues.Get(t.Context(), DefaultQueue, metav1.GetOptions{})
	do(t, err)
	queue.Status.State = schedulingv1beta1.QueueStateOpen
	queue, err = queues.UpdateStatus(t.Context(), queue, metav1.UpdateOptions{})
	do(t, err)
	if queue.Status.State != schedulingv1beta1.QueueStateOpen {
		t.Errorf("a status update left the queue's state at %q", queue.Status.State)
	}
}

func simulatesNodes(t *testing.T, cp *ControlPlane, client kubernetes.Interface) {
	if err := cp.CreateNodes(t.Context(), NodeShape{Count: 20, GPUs: 8, RDMA: 1, IBClusters: 2, Labels: map[string]string{"pool": "a"}}); err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "ibcluster=ib-1,pool=a"})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 10 {
		t.Fatalf("cluster ib-1 has %d nodes, want 10", len(nodes.Items))
	}
	node := nodes.Items[0]
	if got := node.Status.Allocatable["nvidia.com/gpu"]; got.Value() != 8 {
		t.Errorf("node %s has %s GPUs, want 8", node.Name, &got)
	}
	if len(node.Spec.Taints) != 0 {
		t.Errorf("node %s is tainted: %v", node.Name, node.Spec.Taints)
	}
}

// simulatesPodsAgain replaces a running pod again and again. The simulation that ends a deleted pod must not end the
// next pod of the same name.
func simulatesPodsAgain(t *testing.T, _ *ControlPlane, client kubernetes.Interface) {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	for i := range 150 {
		pod, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "again"},
			Spec:       corev1.PodSpec{NodeName: "node-0000", Containers: []corev1.Container{{Name: "main", Image: "busybox"}}},
		}, metav1.CreateOptions{})
		do(t, err)
		for got := pod; got.Status.Phase != corev1.PodRunning; {
			if got, err = pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || got.UID != pod.UID {
				t.Fatalf("pod %d was deleted before it ran: %v", i, err)
			}
		}
		do(t, pods.Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
	}
}

func simulatesPods(t *testing.T, _ *ControlPlane, client kubernetes.Interface) {
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "sleeper", Annotations: map[string]string{CompleteAfterAnnotation: "1s"}},
		Spec: corev1.PodSpec{
			NodeName:   "node-0000",
			Containers: []corev1.Container{{Name: "main", Image: "busybox"}},
		},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitPhase := func(want corev1.PodPhase) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			got, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got.Status.Phase != want {
				return fmt.Errorf("pod is %s, want %s", got.Status.Phase, want)
			}
			return nil
		})
	}
	waitPhase(corev1.PodRunning)
	waitPhase(corev1.PodSucceeded)
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("pod is still there: %v", err)
	})
}

func grantsRBAC(t *testing.T, cp *ControlPlane, _ kubernetes.Interface) {
	config, err := cp.ServiceAccountConfig(t.Context(), Namespace, SchedulerServiceAccount)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scheduler.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := scheduler.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v, want it forbidden", err)
	}
}

func restartsAPIServer(t *testing.T, cp *ControlPlane, client kubernetes.Interface) {
	if err := cp.Kill(APIServer); err != nil {
		t.Fatal(err)
	}
	if err := getAs(t.Context(), cp.Config(), "/readyz"); err == nil {
		t.Fatal("the API server answers after it was killed")
	}
	if err := cp.Restart(t.Context(), APIServer); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "node-0019", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	select {
	case err := <-cp.Dead():
		t.Errorf("a component died: %v", err)
	default:
	}
}

func reportsDeath(t *testing.T, cp *ControlPlane, _ kubernetes.Interface) {
	p, err := cp.startChild("doomed", "/bin/sh", []string{"-c", "echo last words >&2; exit 3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(t.Context()); err != nil || code != 3 {
		t.Errorf("Wait() = %d, %v, want 3", code, err)
	}
	select {
	case err := <-cp.Dead():
		for _, want := range []string{"doomed", "exit status 3", "last words"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the report lacks %q: %v", want, err)
			}
		}
	case <-time.After(time.Minute):
		t.Error("the death was not reported")
	}
}

// leavesNothing stops the control plane and checks that no file and no process of it is left.
func leavesNothing(t *testing.T, cp *ControlPlane) {
	if err := cp.Stop(); err != nil {
		t.Error(err)
	}
	if left := processesMentioning(t, cp.Dir()); len(left) > 0 {
		t.Errorf("processes left behind: %q", left)
	}
	if _, err := os.Stat(cp.Dir()); !os.IsNotExist(err) {
		t.Errorf("directory left behind: %v", err)
	}
}

// processesMentioning returns the command lines that contain the text, except that of this process.
func processesMentioning(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || file == fmt.Sprintf("/proc/%d/cmdline", os.Getpid()) {
			continue
		}
		if line := strings.ReplaceAll(string(data), "\x00", " "); strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func eventually(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := poll(ctx, func() error { return f(ctx) }); err != nil {
		t.Fatal(err)
	}
}
