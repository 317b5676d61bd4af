// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"errors"
	"fmt"
	"time"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// These are the names of the plugin's arguments. Upstream's plugin predicates also has an argument
// dynamicresources.filterTimeoutSeconds.
const (
	filterTimeoutArgument  = "dynamicresources.filterTimeoutSeconds"
	searchArgument         = "dynamicresources.searchSeconds"
	bindingTimeoutArgument = "dynamicresources.bindingTimeoutSeconds"
)

const (
	defaultFilterTimeoutSeconds  = 1
	defaultSearchSeconds         = 1
	defaultBindingTimeoutSeconds = 600
	// maxSearchSeconds is one minute, because a session places no other pod while it searches devices for a pod.
	maxSearchSeconds = 60
	// maxBindingTimeoutSeconds is one day. No device takes longer to prepare, and a time.Duration can hold a day.
	maxBindingTimeoutSeconds = 24 * 60 * 60
)

func arguments() []framework.Argument {
	return []framework.Argument{
		{
			Name: filterTimeoutArgument, Type: framework.Int, Default: fmt.Sprint(defaultFilterTimeoutSeconds),
			Doc: "How long devices of one node may be searched for one pod, in seconds; 1 to 60.",
		},
		{
			Name: searchArgument, Type: framework.Int, Default: fmt.Sprint(defaultSearchSeconds),
			Doc: "Limits the time of slow searches for devices in one session, in seconds; 1 to 60. It is one limit for each namespace, and for all namespaces together. A search is slow beyond its first millisecond on a node.",
		},
		{
			Name: bindingTimeoutArgument, Type: framework.Int, Default: fmt.Sprint(defaultBindingTimeoutSeconds),
			Doc: "How long the devices of one pod may take to meet their binding conditions, in seconds; 1 to 86400.",
		},
	}
}

// settings are the plugin's parsed arguments.
type settings struct {
	// filterTimeout is the time limit of one search for devices. search limits the total time of slow searches in a session, for
	// each namespace and for all namespaces together. Only the time of a search after its first millisecond (freeSearch) counts as
	// slow.
	filterTimeout, search time.Duration
	bindingTimeout        time.Duration
}

// load parses the plugin's arguments, and returns the errors of all invalid arguments together.
func load(args framework.Arguments) (settings, error) {
	filter, filterErr := seconds(args, filterTimeoutArgument, defaultFilterTimeoutSeconds, maxSearchSeconds)
	search, searchErr := seconds(args, searchArgument, defaultSearchSeconds, maxSearchSeconds)
	binding, bindingErr := seconds(args, bindingTimeoutArgument, defaultBindingTimeoutSeconds, maxBindingTimeoutSeconds)
	return settings{filterTimeout: filter, search: search, bindingTimeout: binding}, errors.Join(filterErr, searchErr, bindingErr)
}

func seconds(args framework.Arguments, name string, byDefault, most int) (time.Duration, error) {
	value, given := args[name]
	if !given {
		value = byDefault
	}
	if number, ok := value.(int); ok && number >= 1 && number <= most {
		return time.Duration(number) * time.Second, nil
	}
	return 0, fmt.Errorf("%s: found %v, want a whole number from 1 to %d", name, value, most)
}
