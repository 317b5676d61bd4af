// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// These are the names of the plugin's arguments. Upstream's plugin predicates has arguments with the same names.
const (
	weightArgument      = "volumebinding.weight"
	bindTimeoutArgument = "volumebinding.bindTimeoutSeconds"
	shapeArgument       = "volumebinding.shape"
)

const (
	defaultWeight             = 1
	defaultBindTimeoutSeconds = 600
	// maxBindTimeoutSeconds is one day. No volume takes longer to be bound, and a time.Duration can hold a day.
	maxBindTimeoutSeconds = 24 * 60 * 60
	maxUtilization        = 100
)

func arguments() []framework.Argument {
	return []framework.Argument{
		{
			Name: weightArgument, Type: framework.Int, Default: fmt.Sprint(defaultWeight),
			Doc: "Weight of the score by used capacity; 0 to 1000000.",
		},
		{
			Name: bindTimeoutArgument, Type: framework.Int, Default: fmt.Sprint(defaultBindTimeoutSeconds),
			Doc: "How long the claims of one pod may take to be bound, in seconds; 1 to 86400.",
		},
		{
			Name: shapeArgument, Type: framework.Object,
			Fields: map[string]framework.ArgumentType{"utilization": framework.Int, "score": framework.Int},
			Doc: "Score by used capacity: a list of `utilization` (percent) and `score` (0 to 10), by rising utilization. Without it nodes are " +
				"not scored, unless the feature gate `StorageCapacityScoring` is on: then nodes with much left are preferred.",
		},
	}
}

// settings are the plugin's parsed arguments.
type settings struct {
	weight      int
	bindTimeout time.Duration
	// shape maps the used percentage of storage to a score. It is empty if the configuration does not set the argument
	// volumebinding.shape.
	shape helper.FunctionShape
}

// load parses the plugin's arguments, and returns the errors of all invalid arguments together.
func load(args framework.Arguments) (settings, error) {
	weight, weightErr := integer(args, weightArgument, defaultWeight, 0, framework.MaxWeight)
	seconds, secondsErr := integer(args, bindTimeoutArgument, defaultBindTimeoutSeconds, 1, maxBindTimeoutSeconds)
	shape, shapeErr := loadShape(args[shapeArgument])
	return settings{weight: weight, bindTimeout: time.Duration(seconds) * time.Second, shape: shape}, errors.Join(weightErr, secondsErr, shapeErr)
}

func integer(args framework.Arguments, name string, byDefault, least, most int) (int, error) {
	value, given := args[name]
	if !given {
		return byDefault, nil
	}
	if number, ok := value.(int); ok && number >= least && number <= most {
		return number, nil
	}
	return 0, fmt.Errorf("%s: found %v, want a whole number from %d to %d", name, value, least, most)
}

// loadShape parses the argument volumebinding.shape, a list of points with utilization and score. It returns nil if the argument
// is not set.
func loadShape(value any) (helper.FunctionShape, error) {
	if value == nil {
		return nil, nil
	}
	points, ok := value.([]any)
	if !ok || len(points) == 0 {
		return nil, fmt.Errorf("%s: found %v, want a list of points, such as [{utilization: 0, score: 0}, {utilization: 100, score: 10}]", shapeArgument, value)
	}
	shape := make(helper.FunctionShape, 0, len(points))
	var errs []error
	for i, point := range points {
		path := fmt.Sprintf("%s[%d]", shapeArgument, i)
		fields, err := fieldsOf(path, point)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		utilization, utilizationErr := integer(fields, path+".utilization", 0, 0, maxUtilization)
		score, scoreErr := integer(fields, path+".score", 0, 0, int(config.MaxCustomPriorityScore))
		errs = append(errs, utilizationErr, scoreErr)
		if last := len(shape) - 1; last >= 0 && int64(utilization) <= shape[last].Utilization {
			errs = append(errs, fmt.Errorf("%s.utilization: found %d, want more than the %d before it", path, utilization, shape[last].Utilization))
		}
		shape = append(shape, helper.FunctionShapePoint{Utilization: int64(utilization), Score: int64(score) * scoreScale})
	}
	return shape, errors.Join(errs...)
}

// fieldsOf returns the fields utilization and score of a point of the shape. It puts path before the name of each field, so that
// an error about a field names the point's position in the configuration.
func fieldsOf(path string, point any) (framework.Arguments, error) {
	fields := framework.Arguments{}
	var errs []error
	add := func(key string, value any) {
		if key != "utilization" && key != "score" {
			errs = append(errs, fmt.Errorf("%s: key %q is unknown; valid names: score, utilization", path, key))
		}
		fields[path+"."+key] = value
	}
	switch mapping := point.(type) {
	case map[any]any:
		for key, value := range mapping {
			add(fmt.Sprint(key), value)
		}
	case map[string]any:
		for key, value := range mapping {
			add(key, value)
		}
	default:
		errs = append(errs, fmt.Errorf("%s: found %v, want a mapping with utilization and score", path, point))
	}
	return fields, errors.Join(errs...)
}
