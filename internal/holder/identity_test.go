// SPDX-License-Identifier: Apache-2.0

package holder

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestIdentity(t *testing.T) {
	identity := func() string {
		id, err := Identity()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if a, b := identity(), identity(); a == b {
		t.Errorf("two processes on a host are both %s", a)
	}
	t.Setenv(PodUID, "1234")
	if a, b := identity(), identity(); a != b || !strings.HasSuffix(a, "_1234") {
		t.Errorf("a pod is %s, and %s after its container has started again", a, b)
	}
}

// TestThePodsUIDIsGiven checks that the chart gives the pod's UID to the containers that take part in leader
// election. The UID distinguishes the holders of a lease.
func TestThePodsUIDIsGiven(t *testing.T) {
	manifest, err := os.ReadFile("../../config/install/volcano-prebind.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := v1.EnvVar{Name: PodUID, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.uid"}}}
	elected := map[string]bool{}
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var deployment appsv1.Deployment
		if err := yaml.Unmarshal([]byte(document), &deployment); err != nil || deployment.Kind != "Deployment" {
			continue // Other kinds may have fields of other types.
		}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if slices.Contains(container.Args, "--leader-elect=true") {
				elected[container.Name] = slices.ContainsFunc(container.Env, func(env v1.EnvVar) bool { return cmp.Equal(want, env) })
			}
		}
	}
	if diff := cmp.Diff(map[string]bool{"scheduler": true, "controllers": true}, elected); diff != "" {
		t.Errorf("containers that stand for election, and whether they have %s of their pod (-want +got):\n%s", PodUID, diff)
	}
}
