// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestTemplatesFollowTheirConfigMap checks that a change of the ConfigMap is read, and that the templates stay if it
// cannot be parsed.
func TestTemplatesFollowTheirConfigMap(t *testing.T) {
	kube := kubefake.NewClientset()
	woken := make(chan struct{}, 10)
	templates, err := watchTemplates(kube, templatesConfig{Namespace: "ns", Name: "templates"}, func() { woken <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	watching := make(chan struct{}) // the fake clientset loses writes between list and watch
	kube.PrependWatchReactor("configmaps", func(action clienttesting.Action) (bool, watch.Interface, error) {
		shown, err := kube.Tracker().Watch(action.GetResource(), action.GetNamespace())
		close(watching)
		return true, shown, err
	})
	go templates.informer.Run(t.Context().Done())
	<-watching
	put := func(text string) {
		t.Helper()
		config := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "templates"}, Data: map[string]string{templatesKey: text}}
		if _, err := kube.CoreV1().ConfigMaps("ns").Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
			if _, err = kube.CoreV1().ConfigMaps("ns").Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	wakes := func() {
		t.Helper()
		select {
		case <-woken:
		case <-time.After(time.Minute):
			t.Fatal("no session was requested")
		}
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return templates.informer.HasSynced(), nil }); err != nil {
		t.Fatal(err)
	}
	put("huawei-Ascend-310P: {vir01: {huawei.com/npu-core: 1}}")
	wakes()
	first := templates.current.Load()
	if first.Templates == nil {
		t.Fatal("no templates were read")
	}
	put("{")
	put("huawei-Ascend-310P: {vir02: {huawei.com/npu-core: 2}}")
	wakes()
	if now := templates.current.Load(); now == first || now.Templates == nil {
		t.Error("the templates are not those of the changed ConfigMap")
	}
	if got := templates.current.Load().number; got != 2 {
		t.Errorf("the templates changed %d times, want 2: an invalid ConfigMap must not change them", got)
	}
	if err := kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "templates", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wakes()
	if templates.current.Load().Templates != nil {
		t.Error("the templates of a deleted ConfigMap still exist")
	}
}
