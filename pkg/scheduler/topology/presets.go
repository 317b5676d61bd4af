// SPDX-License-Identifier: Apache-2.0

package topology

import "slices"

// Preset is the set of label keys that one tool writes on nodes.
type Preset struct {
	Name string
	// Keys are the label keys from the widest level to the narrowest.
	Keys []string
	// Doc says who or what writes the labels.
	Doc string
}

// Presets lists the known sets of label keys. Topograph's keys differ between its versions, so each set is a preset.
func Presets() []Preset {
	return []Preset{
		{
			Name: "ibcluster",
			Keys: []string{"ibcluster", "spine", "leaf"},
			Doc:  "labels written by hand or by a script of yours; `vc-sandbox up` writes them",
		},
		{
			Name: "topograph",
			Keys: []string{"fabric.topograph.run/tier-2", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0"},
			Doc:  "Topograph 1.0 and later, for a fabric of three tiers of switches",
		},
		{
			Name: "topograph-core",
			Keys: []string{"network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"},
			Doc:  "Topograph before 1.0",
		},
		{
			Name: "topograph-datacenter",
			Keys: []string{"network.topology.nvidia.com/datacenter", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/block"},
			Doc:  "Topograph 0.1",
		},
		{
			Name: "topograph-kubernetes",
			Keys: []string{"network.topology.kubernetes.io/datacenter", "network.topology.kubernetes.io/spine", "network.topology.kubernetes.io/block"},
			Doc:  "Topograph before 0.1",
		},
		{
			Name: "topograph-level",
			Keys: []string{"topology.kubernetes.io/network-level-3", "topology.kubernetes.io/network-level-2", "topology.kubernetes.io/network-level-1"},
			Doc:  "the first Topograph",
		},
		{
			Name: "nvidia",
			Keys: []string{"nvidia.com/gpu.clique"},
			Doc:  "NVIDIA's GPU feature discovery: the NVLink domain, for gangs that must share one",
		},
	}
}

// PresetKeys returns the label keys of the named preset; nil if the preset does not exist.
func PresetKeys(name string) []string {
	presets := Presets()
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return presets[i].Keys
}
