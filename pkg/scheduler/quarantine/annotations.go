// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"maps"
	"slices"
	"strings"
)

const (
	// mostKnown bounds, in bytes, the annotations of a PodGroup whose domain is in readDomains. mostForeign bounds all
	// other annotations. The API server allows 256 KiB in total, and sessions copy the annotations. The annotation that
	// lists a group of 64 gangs with names of full length takes 20 KiB.
	mostKnown   = 32 << 10
	mostForeign = 8 << 10
)

// readDomains are the domains of the annotations that the scheduler and its plugins read.
var readDomains = []string{"volcano.sh", "volcano-prebind.io", "koordinator.sh", "x-k8s.io", "sigs.k8s.io"}

// withinAnnotations returns the annotations of a PodGroup, limited to mostKnown and mostForeign. If they are within
// these bounds, it returns the same map. Annotations are taken in the order of their keys. A foreign annotation beyond
// its bound is left out. A known annotation is cut at its bound rather than left out. The plugin that reads it then
// reports it as invalid. Without the annotation, the gang might be placed where it must not be.
func withinAnnotations(annotations map[string]string) map[string]string {
	known, foreign := 0, 0
	for key, value := range annotations {
		if isRead(key) {
			known += len(key) + len(value)
		} else {
			foreign += len(key) + len(value)
		}
	}
	if known <= mostKnown && foreign <= mostForeign {
		return annotations
	}
	within := map[string]string{}
	known, foreign = mostKnown, mostForeign
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		switch size := len(key) + len(value); {
		case !isRead(key) && size <= foreign:
			within[key] = strings.Clone(value)
			foreign -= size
		case isRead(key) && len(key) <= known:
			value = value[:min(len(value), known-len(key))]
			within[key] = strings.Clone(value)
			known -= len(key) + len(value)
		}
	}
	return within
}

func isRead(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc(readDomains, func(read string) bool { return domain == read || strings.HasSuffix(domain, "."+read) })
}
