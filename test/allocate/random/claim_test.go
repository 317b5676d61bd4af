// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// The inventory is the same for all instances: three zones with three unbound volumes of 1 to 3 GiB each; claims of 1
// to 3 GiB that wait for their first consumer; and in each zone a volume that is bound to a claim.
const (
	inventoryZones = 3
	volumesPerZone = 3
	waitingClaims  = 9
	waitingClaim   = "waiting-%d"
	zoneClaim      = "of-zone-%d"
)

// gibibytes is the size of the volume or claim with this number.
func gibibytes(i int) int { return 1 + i%volumesPerZone }

// claim gives each role of the gang, at random, a claim that is bound in a zone, a separate waiting claim for each pod,
// or no claim.
func (g *gang) claim() {
	for _, r := range g.roles {
		switch g.IntN(3) {
		case 0:
			use(r.pod, fmt.Sprintf(zoneClaim, g.IntN(inventoryZones)))
		case 1:
			r.ownClaims = true
		}
	}
}

// useClaim gives the pod the next waiting claim, if any is left.
func (g *gang) useClaim(pod *v1.Pod) {
	if g.claimed < waitingClaims {
		use(pod, fmt.Sprintf(waitingClaim, g.claimed))
		g.claimed++
	}
}

func use(pod *v1.Pod, claim string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
}

// checkVolumes reports pods that cannot reach their volume, and claims without a free volume in their zone.
func (s *scene) checkVolumes() {
	zones := map[string]string{}
	for _, p := range s.pods {
		for _, volume := range p.Spec.Volumes {
			claim, in := volume.PersistentVolumeClaim.ClaimName, p.node.Labels[zone]
			var number int
			if _, err := fmt.Sscanf(claim, zoneClaim, &number); err == nil && p.fresh() && in != fmt.Sprintf("zone-%d", number) {
				s.fault("volume", "%s on %s in %q cannot reach claim %s", p.key(), p.node.Name, in, claim)
			}
			// Pods that ran before may be on any node, since they do not use the inventory.
			if _, err := fmt.Sscanf(claim, waitingClaim, &number); err != nil || !p.fresh() {
				continue
			}
			if other, ok := zones[claim]; in == "" || ok && other != in {
				s.fault("volume", "%s on %s in %q uses claim %s, which is in %q", p.key(), p.node.Name, in, claim, other)
			}
			zones[claim] = in
		}
	}
	sizes := map[string][]int{}
	for claim, in := range zones {
		var number int
		if _, err := fmt.Sscanf(claim, waitingClaim, &number); err != nil {
			panic(err)
		}
		sizes[in] = append(sizes[in], gibibytes(number))
	}
	for in, asked := range sizes {
		// Volumes of a zone differ in size by their number: the n-th largest claim must fit the n-th largest volume.
		slices.Sort(asked)
		slices.Reverse(asked)
		for n, size := range asked {
			if size > volumesPerZone-n {
				s.fault("volume", "%s has no volumes for claims of %v GiB", in, asked)
				break
			}
		}
	}
}
