// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Templates are the shares into which GPUs can be divided, for models whose hardware allows no other shares. They are
// immutable.
type Templates struct {
	// byModel lists the templates by vendor and model, joined as in "huawei-Ascend-310P".
	byModel map[string][]template
}

type template struct {
	name    string
	amounts Amounts
}

// ParseTemplates parses the key data.yaml of a ConfigMap. It has, for each vendor and model, the templates by name, and
// each template is a list of resources.
func ParseTemplates(text string) (*Templates, error) {
	var wire map[string]map[string]v1.ResourceList
	if err := yaml.Unmarshal([]byte(text), &wire); err != nil {
		return nil, fmt.Errorf("shared-resource templates: not resources by template by vendor-model: %w", clip(err))
	}
	t := &Templates{byModel: make(map[string][]template, len(wire))}
	var errs []error
	for model, templates := range wire {
		for name, resources := range templates {
			parsed := template{name: name}
			for r, resource := range resourceNames {
				if q, ok := resources[resource]; ok {
					value, ok := wholeNumber(q)
					if !ok || value > maxAmount {
						errs = append(errs, fmt.Errorf("shared-resource templates: %.64s: %.64s: resource %s is %.64s, must be a whole number", model, name, resource, q.String()))
					}
					parsed.amounts[r] = value
				}
			}
			t.byModel[model] = append(t.byModel[model], parsed)
		}
	}
	if err := joinErrors(errs); err != nil {
		return nil, err
	}
	return t, nil
}

// match returns the name of the template of that vendor and model that has exactly these amounts; false if none or several
// have. The ratio of memory is not compared, because it is derived from the bytes.
func (t *Templates) match(vendor, model string, amounts Amounts) (string, bool) {
	if t == nil || vendor == "" {
		return "", false
	}
	templates := t.byModel[vendor+"-"+model]
	same := func(candidate template) bool {
		candidate.amounts[MemoryRatio] = amounts[MemoryRatio]
		return candidate.amounts == amounts
	}
	at := slices.IndexFunc(templates, same)
	if at < 0 || slices.ContainsFunc(templates[at+1:], same) {
		return "", false
	}
	return templates[at].name, true
}
