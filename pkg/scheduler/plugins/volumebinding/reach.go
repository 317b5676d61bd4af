// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	feature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/storage/volume"
	csitrans "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// errUnreached is the error for a node that cannot access an existing volume.
var errUnreached = errors.New("the node cannot access it")

// reaches returns nil if the node can access the volume, and errUnreached if it cannot. Any other error means that the access
// could not be checked.
func (o *objects) reaches(pv *v1.PersistentVolume, node *v1.Node) error {
	used, err := o.usedAs(pv, node.Name)
	if err != nil {
		return err
	}
	if volume.CheckNodeAffinity(used, node.Labels) != nil {
		return errUnreached
	}
	return nil
}

// usedAs returns the volume in the form in which the node's kubelet uses it. With CSI migration (KEP-625), a kubelet uses a volume
// of a former in-tree driver as a CSI volume, which has other topology labels.
func (o *objects) usedAs(pv *v1.PersistentVolume, node string) (*v1.PersistentVolume, error) {
	if asIs(pv) {
		return pv, nil
	}
	translator := csitrans.New()
	driver, err := translator.GetInTreePluginNameFromSpec(pv, nil)
	if err != nil {
		return nil, err
	}
	csiNode, err := o.csiNodes.Get(node)
	if err != nil || !isTranslated(driver) || !slices.Contains(strings.Split(csiNode.Annotations[v1.MigratedPluginsAnnotationKey], ","), driver) {
		return pv, nil
	}
	return translator.TranslateInTreePVToCSI(klog.Background(), pv)
}

// isTranslated reports whether Kubernetes' scheduler translates volumes of the in-tree driver into CSI volumes.
func isTranslated(driver string) bool {
	switch driver {
	case plugins.AWSEBSInTreePluginName, plugins.GCEPDInTreePluginName, plugins.AzureDiskInTreePluginName, plugins.CinderInTreePluginName:
		return true
	case plugins.PortworxVolumePluginName:
		return feature.DefaultFeatureGate.Enabled(features.CSIMigrationPortworx)
	}
	return false
}
