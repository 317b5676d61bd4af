// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-helpers/storage/volume"
)

// TestProvisioner checks what the demo's provisioner does when the selected node of a claim changes or is removed.
func TestProvisioner(t *testing.T) {
	claim := func(class, node string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", UID: "uid", Annotations: map[string]string{}},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		}
		if node != "" {
			c.Annotations[volume.AnnSelectedNode] = node
		}
		return c
	}
	type outcome struct {
		// Selected is the selected node of the claim after the provisioner's reaction. Made is the node of the created
		// volume. TakenBack counts the selections that the scheduler withdrew.
		Selected, Made string
		TakenBack      int
	}
	cases := map[string]struct {
		before, after *corev1.PersistentVolumeClaim
		want          outcome
	}{
		"a node with disks":                     {claim(diskClass, ""), claim(diskClass, "good"), outcome{Selected: "good", Made: "good"}},
		"the node without":                      {claim(diskClass, ""), claim(diskClass, "full"), outcome{}},
		"a node where it takes for ever":        {claim(diskClass, ""), claim(diskClass, "slow"), outcome{Selected: "slow"}},
		"none any more":                         {claim(diskClass, "slow"), claim(diskClass, ""), outcome{TakenBack: 1}},
		"none any more, as the provisioner did": {claim(diskClass, "full"), claim(diskClass, ""), outcome{}},
		"another class":                         {claim("other", ""), claim("other", "good"), outcome{Selected: "good"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			kube := kubefake.NewClientset(tc.after)
			p := &provisioner{kube: kube, full: "full", slow: map[string]bool{"slow": true}, withdrawn: map[string]bool{}}
			if err := p.changed(t.Context(), tc.before, tc.after); err != nil {
				t.Fatal(err)
			}
			now, err := kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "c", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made, err := kube.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := outcome{Selected: now.Annotations[volume.AnnSelectedNode], TakenBack: p.takenBack()}
			for _, v := range made.Items {
				if v.Spec.ClaimRef.UID != "uid" {
					t.Errorf("volume %s is of claim %v", v.Name, v.Spec.ClaimRef)
				}
				got.Made += v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
