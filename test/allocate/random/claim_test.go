// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// The inventory is the same for all instances: three zones with three volumes of 1 to 3 GiB each that nobody has bound;
// claims of 1 to 3 GiB that wait for their first consumer; and in each zone a volume with a claim that is bound to it.
const (
	inventoryZones = 3
	volumesPerZone = 3
	waitingClaims  = 9
	waitingClaim   = "waiting-%d"
	zoneClaim      = "of-zone-%d"
)

// gibibytes is the size of the volume or claim of the number.
func gibibytes(i int) int { return 1 + i%volumesPerZone }

// claim gives the gang's roles claims: one that is bound in a zone, or one each that waits.
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

// useClaim gives the pod the next claim that waits, if there is one left.
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

// checkVolumes finds pods that cannot reach their volume, and claims for which their zone has no volume left.
func (s *scene) checkVolumes() {
	zones := map[string]string{}
	for _, p := range s.pods {
		for _, volume := range p.Spec.Volumes {
			claim, in := volume.PersistentVolumeClaim.ClaimName, p.node.Labels[zone]
			var number int
			if _, err := fmt.Sscanf(claim, zoneClaim, &number); err == nil && p.fresh() && in != fmt.Sprintf("zone-%d", number) {
				s.fault("volume", "%s on %s in %q cannot reach claim %s", p.key(), p.node.Name, in, claim)
			}
			// What ran before may be anywhere: the inventory does not know of it.
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
		// The volumes of a zone are as large as their number: the n-th largest claim must fit the n-th largest volume.
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
