// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

// TestProcesses runs our three binaries on one control plane, each with the chart's RBAC, and fails if any request
// was forbidden, since the chart would then lack a permission.
func TestProcesses(t *testing.T) {
	cp, err := Start(t.Context(), Options{Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	ctx := t.Context()
	do(t, cp.InstallCRDs(ctx), cp.InstallChart(ctx), cp.CreateNodes(ctx, NodeShape{Count: 3}))
	controllers, err := cp.StartControllerManager(ctx, ManagerOptions{})
	do(t, err)
	webhooks, err := cp.StartWebhookManager(ctx, ManagerOptions{})
	do(t, err)
	proxy, err := cp.StartFaultProxy()
	do(t, err)
	scheduler, err := cp.StartScheduler(ctx, SchedulerOptions{LeaderElect: true, Server: proxy.URL(), Layout: ConfMount})
	do(t, err)

	client, err := vcclient.NewForConfig(cp.Config())
	do(t, err)
	runsJob(t, client)
	if n := proxy.Writes()["pods/binding"]; n != 3 {
		t.Errorf("the proxy saw %d bindings, want 3", n)
	}
	rejectsJob(t, client)
	boundsWebhooks(t, cp)
	measures(t, scheduler)

	do(t, scheduler.Terminate())
	if code, err := scheduler.Wait(ctx); err != nil || code != 0 {
		t.Errorf("SIGTERM ended the scheduler with %d, %v; the log ends\n%s", code, err, scheduler.LogTail(10))
	}
	for _, p := range []*Process{controllers, webhooks, scheduler.Process} {
		if lines := linesWith(t, p.LogPath(), "forbidden"); len(lines) > 0 {
			t.Errorf("%s was forbidden something: %q", p.Name(), lines[0])
		}
	}
}

// runsJob runs a job through admission, the controllers and the scheduler.
func runsJob(t *testing.T, client vcclient.Interface) {
	t.Helper()
	jobs := client.BatchV1alpha1().Jobs(metav1.NamespaceDefault)
	_, err := jobs.Create(t.Context(), job("trainer", 3), metav1.CreateOptions{})
	do(t, err)
	eventually(t, func(ctx context.Context) error {
		got, err := jobs.Get(ctx, "trainer", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got.Status.State.Phase != batchv1alpha1.Running || got.Status.Running != 3 {
			return fmt.Errorf("the job is %s with %d pods running, want Running with 3", got.Status.State.Phase, got.Status.Running)
		}
		return nil
	})
}

// rejectsJob checks that admission is in use: a job whose minAvailable exceeds its replicas is rejected.
func rejectsJob(t *testing.T, client vcclient.Interface) {
	t.Helper()
	bad := job("greedy", 1)
	bad.Spec.MinAvailable = 5
	_, err := client.BatchV1alpha1().Jobs(metav1.NamespaceDefault).Create(t.Context(), bad, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "denied the request") {
		t.Errorf("a job with minAvailable over its replicas: %v, want it denied", err)
	}
}

// boundsWebhooks sends the requests of an attacker to the webhook manager's port. An oversized review is rejected
// (CVE-2026-44247), and only the webhooks are served.
func boundsWebhooks(t *testing.T, cp *ControlPlane) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(cp.Config())
	do(t, err)
	config, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(
		t.Context(), "volcano-admission-service-jobs-validate", metav1.GetOptions{})
	do(t, err)
	review := *config.Webhooks[0].ClientConfig.URL
	profile := strings.TrimSuffix(review, "/jobs/validate") + "/debug/pprof/"
	// The client sends its body only after the server's 100 Continue, so an early answer does not race with the body.
	client := &http.Client{Transport: cp.ca.httpClient().Transport.(*http.Transport).Clone()}
	client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	for url, want := range map[string]int{review: http.StatusRequestEntityTooLarge, profile: http.StatusNotFound} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(make([]byte, 32<<20)))
		do(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Expect", "100-continue")
		resp, err := client.Do(req)
		do(t, err)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("32 MiB to %s are answered %d, want %d", url, resp.StatusCode, want)
		}
	}
}

func job(name string, replicas int32) *batchv1alpha1.Job {
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "main", Image: "busybox"}},
	}}
	return &batchv1alpha1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1alpha1.JobSpec{Tasks: []batchv1alpha1.TaskSpec{{Name: "worker", Replicas: replicas, Template: template}}},
	}
}

func measures(t *testing.T, s *Scheduler) {
	t.Helper()
	if s.CPUSeconds() <= 0 {
		t.Error("the scheduler used no CPU")
	}
	if rss := s.PeakRSS(); rss < 10<<20 {
		t.Errorf("the scheduler's peak memory is %d bytes", rss)
	}
	metrics, err := s.Metrics(t.Context())
	do(t, err)
	if !strings.Contains(string(metrics), "volcano_") {
		t.Error("no metric begins with volcano_")
	}
	do(t, s.Pause(), s.Resume(), s.WaitHealthy(t.Context()))
}

func TestConfFile(t *testing.T) {
	for name, layout := range map[string]ConfLayout{"a plain file": ConfFile, "a mounted ConfigMap": ConfMount} {
		t.Run(name, func(t *testing.T) {
			conf := &confFile{dir: t.TempDir(), name: "volcano-scheduler.conf", layout: layout}
			path := conf.path()
			for _, text := range []string{"one", "two", "three"} {
				do(t, conf.write(text))
				got, err := os.ReadFile(path)
				do(t, err)
				if diff := cmp.Diff(text, string(got)); diff != "" {
					t.Errorf("conf (-want +got):\n%s", diff)
				}
			}
			info, err := os.Lstat(path)
			do(t, err)
			if isLink := info.Mode()&os.ModeSymlink != 0; isLink != (layout == ConfMount) {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
		})
	}
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func linesWith(t *testing.T, path, text string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	do(t, err)
	var lines []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}
