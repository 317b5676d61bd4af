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
)

// ofNoAccount are fields of a task and its pod on which no kept verdict depends, with all in them.
var ofNoAccount = strings.Fields(`
	.UID .Job .Name .LastTransaction .TransactionContext .BestEffort .HasRestartableInitContainer
	.SchGated .NumaInfo .CustomBindErrHandlerSucceeded .VolumeReady
	.Pod.TypeMeta .Pod.Status .Pod.ObjectMeta.Name .Pod.ObjectMeta.GenerateName .Pod.ObjectMeta.Namespace .Pod.ObjectMeta.SelfLink .Pod.ObjectMeta.UID
	.Pod.ObjectMeta.ResourceVersion .Pod.ObjectMeta.Generation .Pod.ObjectMeta.CreationTimestamp .Pod.ObjectMeta.DeletionTimestamp
	.Pod.ObjectMeta.DeletionGracePeriodSeconds .Pod.ObjectMeta.OwnerReferences .Pod.ObjectMeta.Finalizers .Pod.ObjectMeta.ManagedFields
	.Pod.Spec.EphemeralContainers .Pod.Spec.RestartPolicy .Pod.Spec.TerminationGracePeriodSeconds .Pod.Spec.ActiveDeadlineSeconds .Pod.Spec.DNSPolicy
	.Pod.Spec.ServiceAccountName .Pod.Spec.DeprecatedServiceAccount .Pod.Spec.AutomountServiceAccountToken .Pod.Spec.NodeName .Pod.Spec.HostPID
	.Pod.Spec.HostIPC .Pod.Spec.ShareProcessNamespace .Pod.Spec.SecurityContext .Pod.Spec.ImagePullSecrets .Pod.Spec.Hostname .Pod.Spec.Subdomain
	.Pod.Spec.SchedulerName .Pod.Spec.HostAliases .Pod.Spec.Priority .Pod.Spec.DNSConfig .Pod.Spec.ReadinessGates .Pod.Spec.EnableServiceLinks
	.Pod.Spec.PreemptionPolicy .Pod.Spec.SetHostnameAsFQDN .Pod.Spec.OS .Pod.Spec.HostUsers .Pod.Spec.SchedulingGates .Pod.Spec.HostnameOverride
`)

// ofNoAccountInContainers are fields of containers.
var ofNoAccountInContainers = strings.Fields(`
	.Name .Command .Args .WorkingDir .EnvFrom .Env .ResizePolicy .RestartPolicyRules .VolumeMounts .VolumeDevices .LivenessProbe .ReadinessProbe .StartupProbe
	.Lifecycle .TerminationMessagePath .TerminationMessagePolicy .ImagePullPolicy .SecurityContext .Stdin .StdinOnce .TTY
`)

// TestEachFieldOfATaskIsInItsClassOrOfNoAccount changes each field of a task and its pod, and fails when the class key does not change with it,
// unless it is known that no kept verdict depends on it. A field that upstream adds is in neither list.
func TestEachFieldOfATaskIsInItsClassOrOfNoAccount(t *testing.T) {
	exempt := map[string]bool{}
	for _, path := range ofNoAccount {
		exempt[path] = false
	}
	for _, path := range ofNoAccountInContainers {
		exempt[".Pod.Spec.Containers[]"+path], exempt[".Pod.Spec.InitContainers[]"+path] = false, false
	}
	told := &selectorLabelKeys{read: framework.SomePodKeys("x"), selected: map[string]*mentionedValues{}}
	task := &api.TaskInfo{}
	fill(reflect.ValueOf(task).Elem(), "")
	changed, unseen := 0, map[string]bool{}
	change(reflect.ValueOf(task).Elem(), "", func(path string, do, undo func()) {
		before := appendClassKey(nil, task, told)
		do()
		after := appendClassKey(nil, task, told)
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
		t.Errorf("the class key does not tell of %s", path)
	}
	for path, used := range exempt {
		if !used {
			t.Errorf("%s is listed as of no account, and is in the key or not there", path)
		}
	}
}

// covered says whether the field or one it is in is listed, and notes that.
func covered(exempt map[string]bool, path string) bool {
	for listed := range exempt {
		if rest, ok := strings.CutPrefix(path, listed); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[ ")) {
			exempt[listed] = true
			return true
		}
	}
	return false
}

// opaque are types of which a test changes the whole.
func opaque(v reflect.Value) bool {
	switch v.Interface().(type) {
	case resource.Quantity, metav1.Time, metav1.MicroTime, *api.Resource:
		return true
	}
	return false
}

// fill sets all that can be set, so that it can be changed.
func fill(v reflect.Value, path string) {
	switch {
	case !v.CanSet(), madeByKubelet[v.Type()]:
	case opaque(v):
		switch v.Interface().(type) {
		case resource.Quantity:
			v.Set(reflect.ValueOf(resource.MustParse("1")))
		case *api.Resource:
			v.Set(reflect.ValueOf(&api.Resource{MilliCPU: 1, ScalarResources: map[v1.ResourceName]float64{"x": 1}}))
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path+"[]")
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString("x")
		fill(element, path)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, element)
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	}
}

// madeByKubelet are the volumes of which the class knows nothing; others stand for volumes.
var madeByKubelet = map[reflect.Type]bool{
	reflect.TypeFor[*v1.EmptyDirVolumeSource]():    true,
	reflect.TypeFor[*v1.HostPathVolumeSource]():    true,
	reflect.TypeFor[*v1.SecretVolumeSource]():      true,
	reflect.TypeFor[*v1.ConfigMapVolumeSource]():   true,
	reflect.TypeFor[*v1.DownwardAPIVolumeSource](): true,
	reflect.TypeFor[*v1.ProjectedVolumeSource]():   true,
}

// change calls with each change that can be made to the filled value: another value, and none.
func change(v reflect.Value, path string, with func(path string, do, undo func())) {
	if !v.CanSet() || madeByKubelet[v.Type()] {
		return
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	undo := func() { v.Set(old) }
	set := func(what string, value func()) { with(path+what, value, undo) }
	switch {
	case opaque(v):
		switch v.Interface().(type) {
		case resource.Quantity:
			set("", func() { v.Set(reflect.ValueOf(resource.MustParse("2"))) })
		case *api.Resource:
			set(" cpu", func() {
				v.Set(reflect.ValueOf(&api.Resource{MilliCPU: 2, ScalarResources: map[v1.ResourceName]float64{"x": 1}}))
			})
			set(" memory", func() {
				v.Set(reflect.ValueOf(&api.Resource{MilliCPU: 1, Memory: 1, ScalarResources: map[v1.ResourceName]float64{"x": 1}}))
			})
			set(" amount", func() {
				v.Set(reflect.ValueOf(&api.Resource{MilliCPU: 1, ScalarResources: map[v1.ResourceName]float64{"x": 2}}))
			})
			set(" name", func() {
				v.Set(reflect.ValueOf(&api.Resource{MilliCPU: 1, ScalarResources: map[v1.ResourceName]float64{"y": 1}}))
			})
		default:
			set("", func() { v.Set(reflect.ValueOf(metav1.Now()).Convert(v.Type())) })
		}
	case v.Kind() == reflect.Pointer:
		if path != ".Pod" {
			set(" none", v.SetZero)
		}
		change(v.Elem(), path, with)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			change(v.Field(i), path+"."+v.Type().Field(i).Name, with)
		}
	case v.Kind() == reflect.Slice:
		set(" none", v.SetZero)
		change(v.Index(0), path+"[]", with)
	case v.Kind() == reflect.Map && v.Len() > 0:
		set(" none", v.SetZero)
		key := v.MapKeys()[0]
		element := reflect.New(v.Type().Elem()).Elem()
		element.Set(v.MapIndex(key))
		change(element, path, func(path string, do, undo func()) {
			with(path, func() { do(); v.SetMapIndex(key, element) }, func() { undo(); v.SetMapIndex(key, element) })
		})
	case v.Kind() == reflect.String:
		set("", func() { v.SetString("y") })
	case v.Kind() == reflect.Bool:
		set("", func() { v.SetBool(!v.Bool()) })
	case v.CanInt():
		set("", func() { v.SetInt(2) })
	case v.CanUint():
		set("", func() { v.SetUint(2) })
	}
}
