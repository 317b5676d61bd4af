// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/fields"
)

// ofNoAccount are fields of a task and its pod that affect no cached filter result, including all fields inside them.
var ofNoAccount = strings.Fields(`
	.UID .Job .Name .LastTransaction .TransactionContext .BestEffort .HasRestartableInitContainer
	.SchGated .NumaInfo .CustomBindErrHandlerSucceeded .VolumeReady
	.Pod.TypeMeta .Pod.Status .Pod.ObjectMeta.Name .Pod.ObjectMeta.GenerateName .Pod.ObjectMeta.Namespace .Pod.ObjectMeta.SelfLink .Pod.ObjectMeta.UID
	.Pod.ObjectMeta.ResourceVersion .Pod.ObjectMeta.Generation .Pod.ObjectMeta.CreationTimestamp .Pod.ObjectMeta.DeletionTimestamp
	.Pod.ObjectMeta.DeletionGracePeriodSeconds .Pod.ObjectMeta.OwnerReferences .Pod.ObjectMeta.Finalizers .Pod.ObjectMeta.ManagedFields
	.Pod.Spec.EphemeralContainers .Pod.Spec.RestartPolicy .Pod.Spec.TerminationGracePeriodSeconds .Pod.Spec.ActiveDeadlineSeconds .Pod.Spec.DNSPolicy
	.Pod.Spec.ServiceAccountName .Pod.Spec.DeprecatedServiceAccount .Pod.Spec.AutomountServiceAccountToken .Pod.Spec.NodeName .Pod.Spec.HostPID
	.Pod.Spec.HostIPC .Pod.Spec.ShareProcessNamespace .Pod.Spec.SecurityContext .Pod.Spec.ImagePullSecrets .Pod.Spec.Hostname .Pod.Spec.Subdomain
	.Pod.Spec.SchedulerName .Pod.Spec.HostAliases .Pod.Spec.DNSConfig .Pod.Spec.ReadinessGates .Pod.Spec.EnableServiceLinks
	.Pod.Spec.PreemptionPolicy .Pod.Spec.SetHostnameAsFQDN .Pod.Spec.OS .Pod.Spec.HostUsers .Pod.Spec.SchedulingGates .Pod.Spec.HostnameOverride
`)

// ofNoAccountInContainers are fields of containers that affect no cached filter result.
var ofNoAccountInContainers = strings.Fields(`
	.Name .Command .Args .WorkingDir .EnvFrom .Env .ResizePolicy .RestartPolicyRules .VolumeMounts .VolumeDevices .LivenessProbe .ReadinessProbe .StartupProbe
	.Lifecycle .TerminationMessagePath .TerminationMessagePolicy .ImagePullPolicy .SecurityContext .Stdin .StdinOnce .TTY
`)

// classKeyOf returns the task's class key in the first session of a cache.
func classKeyOf(task *api.TaskInfo, labels *selectorLabelKeys, claims claimKeys) []byte {
	m := NewFactCache()
	m.beginSession()
	return appendClassKey(nil, task, labels, claims, m.factsOf(task))
}

// taskFields fills and changes tasks. It leaves out the kinds of volumes that the kubelet can create on every node
// (madeOnNode), because the class key does not cover them. The volume of the filled task has all other kinds.
var taskFields = fields.Walk{Whole: map[reflect.Type][]fields.Value{
	reflect.TypeFor[resource.Quantity](): {{Value: resource.MustParse("1")}, {Value: resource.MustParse("2")}},
	reflect.TypeFor[metav1.Time]():       {{Value: metav1.Time{}}, {Value: metav1.Now()}},
	reflect.TypeFor[metav1.MicroTime]():  {{Value: metav1.MicroTime{}}, {Value: metav1.NowMicro()}},
	reflect.TypeFor[*api.Resource](): {
		{Value: &api.Resource{MilliCPU: 1, ScalarResources: map[v1.ResourceName]float64{"x": 1}}},
		{Name: " cpu", Value: &api.Resource{MilliCPU: 2, ScalarResources: map[v1.ResourceName]float64{"x": 1}}},
		{Name: " memory", Value: &api.Resource{MilliCPU: 1, Memory: 1, ScalarResources: map[v1.ResourceName]float64{"x": 1}}},
		{Name: " amount", Value: &api.Resource{MilliCPU: 1, ScalarResources: map[v1.ResourceName]float64{"x": 2}}},
		{Name: " name", Value: &api.Resource{MilliCPU: 1, ScalarResources: map[v1.ResourceName]float64{"y": 1}}},
	},
	reflect.TypeFor[*v1.EmptyDirVolumeSource]():    nil,
	reflect.TypeFor[*v1.HostPathVolumeSource]():    nil,
	reflect.TypeFor[*v1.SecretVolumeSource]():      nil,
	reflect.TypeFor[*v1.ConfigMapVolumeSource]():   nil,
	reflect.TypeFor[*v1.DownwardAPIVolumeSource](): nil,
	reflect.TypeFor[*v1.ProjectedVolumeSource]():   nil,
}}

// noKeys are the claim keys of a session without plugins.
var noKeys = claimKeys{
	func(*v1.Pod, *v1.Volume) (string, bool) { return "", false },
	func(*v1.Pod, *v1.PodResourceClaim) (string, bool) { return "", false },
}

// TestEachFieldOfATaskIsInItsClassOrOfNoAccount changes each field of a task and its pod. It fails if the class key
// does not change, unless the field is listed as one that affects no cached filter result. A field that upstream adds
// is in neither list.
func TestEachFieldOfATaskIsInItsClassOrOfNoAccount(t *testing.T) {
	exempt := map[string]bool{}
	for _, path := range ofNoAccount {
		exempt[path] = false
	}
	for _, path := range ofNoAccountInContainers {
		exempt[".Pod.Spec.Containers[]"+path], exempt[".Pod.Spec.InitContainers[]"+path] = false, false
	}
	told := &selectorLabelKeys{read: framework.SomePodKeys("x"), selected: map[string]namedLabels{}}
	task := &api.TaskInfo{}
	taskFields.Fill(task)
	changed, unseen := 0, map[string]bool{}
	taskFields.Each(task, func(path string, do, undo func()) {
		if path == ".Pod none" { // Every task has a pod.
			return
		}
		before := classKeyOf(task, told, noKeys)
		do()
		after := classKeyOf(task, told, noKeys)
		undo()
		changed++
		if bytes.Equal(before, after) && !covered(exempt, path) {
			unseen[path] = true
		}
	})
	if changed < 300 {
		t.Errorf("only %d fields were changed, it does not look right", changed)
	}
	for _, path := range slices.Sorted(maps.Keys(unseen)) {
		t.Errorf("the class key does not contain %s", path)
	}
	for path, used := range exempt {
		if !used {
			t.Errorf("%s is listed as of no account, and is in the key or not there", path)
		}
	}
}

// covered reports whether the field, or a field that contains it, is listed. It marks the listed field as used.
func covered(exempt map[string]bool, path string) bool {
	for listed := range exempt {
		if rest, ok := strings.CutPrefix(path, listed); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[ ")) {
			exempt[listed] = true
			return true
		}
	}
	return false
}
