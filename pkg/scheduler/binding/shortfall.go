// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// maxListed is the maximum number of roles, and of sub-group policies, that a message names. A PodGroup may have tens of
// thousands.
const maxListed = 3

// shortfall lists the members, roles and sub-groups that a gang lacks.
type shortfall struct {
	parts []string
}

// addAll adds the text that the function say returns for each name in short. If short leaves out names, it adds their
// number to the last text.
func (s *shortfall) addAll(short brief.List, say func(name string) string) {
	for _, name := range short.Items() {
		s.parts = append(s.parts, say(name))
	}
	if more := short.More(); more != "" {
		s.parts[len(s.parts)-1] += more
	}
}

// err returns the shortfall as an error; nil when the gang lacks nothing.
func (s *shortfall) err() error {
	if len(s.parts) == 0 {
		return nil
	}
	return errors.New(strings.Join(s.parts, ", "))
}

// lacking lists the names (of roles or sub-group policies) whose number in the map have is below their minimum.
func lacking[K ~string](minima, have map[K]int32) brief.List {
	list := brief.List{First: maxListed}
	for name, least := range minima {
		if have[name] < least {
			list.Add(string(name))
		}
	}
	return list
}
