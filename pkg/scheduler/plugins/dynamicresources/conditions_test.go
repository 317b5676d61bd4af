// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestBindingConditions checks that the step waits until devices are prepared, and that it fails if a device cannot be
// prepared or after a timeout.
func TestBindingConditions(t *testing.T) {
	says := func(name string) func(*resourceapi.ResourceClaim) {
		return func(c *resourceapi.ResourceClaim) {
			c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: schedtest.DeviceDriver, Pool: "n", Device: "gpu-0",
				Conditions: []metav1.Condition{{Type: name, Status: metav1.ConditionTrue, Reason: "Because", Message: "it is so"}}}}
		}
	}
	cases := map[string]struct {
		says func(*resourceapi.ResourceClaim)
		want string
	}{
		"it is prepared":      {says: says("attached")},
		"it cannot be":        {says: says("broken"), want: `claim "p-t" (request "r", class "gpu"): device "gpu-0" failed with condition "broken": "Because": it is so`},
		"nothing is said":     {want: `claim "p-t" (request "r", class "gpu"): devices did not meet their binding conditions in time (10s)`},
		"something else is":   {says: says("seen"), want: `claim "p-t" (request "r", class "gpu"): devices did not meet their binding conditions in time (10s)`},
		"the claim is freed":  {says: func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }, want: `claim "p-t" (request "r", class "gpu"): devices did not meet their binding conditions in time (10s)`},
		"the claim goes away": {says: func(c *resourceapi.ResourceClaim) { c.UID = "another" }, want: `claim "p-t" (request "r", class "gpu"): the claim was deleted after the pod was placed`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := member("p", "made t")
			slice := schedtest.NodeDevices("n", "gpu-0")
			slice.Spec.Devices[0].BindingConditions, slice.Spec.Devices[0].BindingFailureConditions = []string{"attached"}, []string{"broken"}
			objects := append(someNodes("n"), schedtest.DeviceClass("gpu"), slice, made(p, "t", one()))
			runWith(t, framework.Arguments{bindingTimeoutArgument: 10}, objects, func(w *testCluster) {
				if got := w.fits(p, "n"); got == "" {
					t.Fatal("a device with binding conditions was allocated although the feature is disabled")
				}
				w.plugin.devices.catalog.features.DeviceBinding, w.plugin.devices.catalog.features.DeviceStatus = true, true
				w.mustPlace(p, "n")
				end := w.preBind(p)
				if got := w.claim("p-t").Status.Allocation; got == nil || got.AllocationTimestamp == nil {
					t.Fatalf("the allocation is %v, want one with its timestamp", got)
				}
				time.Sleep(9 * time.Second)
				synctest.Wait()
				if tc.says != nil {
					w.change("p-t", tc.says)
				}
				err := end()
				if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				w.rollBack(p)
				if name != "the claim goes away" {
					w.untouched("p-t")
				}
				w.nothingAssumed()
			})
		})
	}
}
