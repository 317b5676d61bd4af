// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Templates are the only shares into which GPUs of certain models can be divided, because their hardware allows no
// others. They are immutable.
type Templates struct {
	// byModel lists the templates by vendor and model, joined as in "huawei-Ascend-310P".
	byModel map[string][]template
}

type template struct {
	name    string
	amounts Amounts
}

// ParseTemplates parses the value of the key data.yaml of a ConfigMap. For each vendor and model, the value has
// templates by name. Each template is a list of resources.
func ParseTemplates(text string) (*Templates, error) {
	var wire map[string]map[string]v1.ResourceList
	if err := yaml.Unmarshal([]byte(text), &wire); err != nil {
		return nil, fmt.Errorf("shared-resource templates: %w",
			parseError(text, err, `resources by template by vendor and model, such as {"huawei-Ascend-310P":{"vir01":{"huawei.com/npu-core":1}}}`))
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

// match returns the name of the template of the given vendor and model that has exactly these amounts. It returns false
// if no template has them, or if several do. match does not compare the ratio of memory, because the ratio is derived
// from the bytes.
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
