// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"errors"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/controllers/framework"
)

const (
	// upstreamName is the name of upstream's podgroup controller. name is the name of this package's controller, which
	// wraps upstream's controller.
	upstreamName = "pg-controller"
	name         = "pg-controller-owner-annotations"
)

// controller runs upstream's podgroup controller with wrapped clients and informers.
type controller struct {
	framework.Controller
	claims Claims
}

// Register registers the controller of this package. The controller ignores a pod if claims returns true. Upstream's
// controller must already be registered.
func Register(claims Claims) error {
	var inner framework.Controller
	framework.ForeachController(func(c framework.Controller) {
		if c.Name() == upstreamName {
			inner = c
		}
	})
	if inner == nil {
		return errors.New("upstream's " + upstreamName + " is not registered")
	}
	if err := framework.RegisterController(&controller{inner, claims}); err != nil {
		return fmt.Errorf("registering %s: %w", name, err)
	}
	return nil
}

// Name implements framework.Controller.
func (c *controller) Name() string { return name }

// Initialize implements framework.Controller.
func (c *controller) Initialize(opt *framework.ControllerOption) error {
	with := *opt
	with.SharedInformerFactory = &factory{opt.SharedInformerFactory, c.claims}
	with.KubeClient = &kubeClient{opt.KubeClient, c.claims}
	if opt.InheritOwnerAnnotations {
		with.VolcanoClient = &client{Interface: opt.VolcanoClient, kube: opt.KubeClient}
	}
	return c.Controller.Initialize(&with)
}

// InPlaceOfUpstreams returns a changed value of the flag --controllers. If the value selects upstream's podgroup
// controller, the new value selects the controller of this package instead.
func InPlaceOfUpstreams(selected []string) []string {
	upstreams := func(entry string) bool { return entry == upstreamName || entry == "+"+upstreamName }
	wanted := len(selected) == 0 || slices.Contains(selected, "*")
	for _, entry := range selected {
		if upstreams(entry) {
			wanted = true
			break
		}
		if entry == "-"+upstreamName {
			wanted = false
			break
		}
	}
	if !wanted {
		return append(slices.Clone(selected), "-"+name)
	}
	if len(selected) == 0 {
		selected = []string{"*"}
	}
	return append(slices.DeleteFunc(slices.Clone(selected), upstreams), "-"+upstreamName, name)
}
