// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/bindpolicy"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/dynamicresources"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/nodeorder"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/volumebinding"

	// Upstream's actions and plugins register themselves when imported.
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	_ "volcano.sh/volcano/pkg/scheduler/plugins"
)

// PluginSpecs declares this project's plugins. The scheduler, the validation of configurations and the generated
// documentation use these declarations.
func PluginSpecs() []framework.PluginSpec {
	return []framework.PluginSpec{bindpolicy.Spec(), coscheduling.Spec(), deviceshare.Spec(), dynamicresources.Spec(), ibcluster.Spec(), nodeorder.Spec(), volumebinding.Spec()}
}
