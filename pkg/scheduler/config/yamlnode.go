// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"regexp"
	"strconv"

	yaml3 "go.yaml.in/yaml/v3"
	yaml2 "gopkg.in/yaml.v2"
)

// yamlNode is a value in the file: its YAML node, which has the line, and its value from upstream's decoder.
//
// Two decoders read the file. yaml.v2 is upstream's decoder. Only yaml.v2 determines values (`yes` is a bool, and a
// mapping is a map[any]any), so plugins get the same values as from upstream. yaml.v3 supplies only lines and keys.
type yamlNode struct {
	// node is never an alias: aliases have been resolved.
	node  *yaml3.Node
	value any
	// replace sets another value in place of this one, in the list or mapping that contains it.
	replace func(value any)
}

// field is one key of a mapping.
type field struct {
	key     string
	keyLine int
	yamlNode
}

func (c yamlNode) line() int { return c.node.Line }

// document returns the root of the YAML document in a file; false if the file has no content.
func document(data []byte) (yamlNode, bool, *Error) {
	decoder := yaml3.NewDecoder(bytes.NewReader(data))
	var doc, second yaml3.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return yamlNode{}, false, nil
	} else if err != nil {
		return yamlNode{}, false, syntaxError(err)
	}
	if err := decoder.Decode(&second); err == nil {
		return yamlNode{}, false, &Error{Line: max(second.Line, 1), Msg: "a second YAML document starts here; the file may have only one"}
	} else if !errors.Is(err, io.EOF) {
		return yamlNode{}, false, syntaxError(err)
	}
	var value any
	if err := yaml2.Unmarshal(data, &value); err != nil {
		return yamlNode{}, false, syntaxError(err)
	}
	root := doc.Content[0]
	if root.Kind == yaml3.ScalarNode && value == nil {
		return yamlNode{}, false, nil
	}
	return yamlNode{node: root, value: value}, true, nil
}

var yamlError = regexp.MustCompile(`(?s)^yaml: (?:unmarshal errors:\s*)?(?:line (\d+): )?(.*)$`)

func syntaxError(err error) *Error {
	found := &Error{Line: 1, Msg: "not valid YAML: " + err.Error()}
	if m := yamlError.FindStringSubmatch(err.Error()); m != nil {
		found.Msg = "not valid YAML: " + m[2]
		if line, convErr := strconv.Atoi(m[1]); convErr == nil {
			found.Line = max(line, 1)
		}
	}
	return found
}

// at returns the yamlNode for a node and its value. It resolves aliases. The loop terminates because yaml.v2 has
// rejected aliases that contain themselves.
func at(node *yaml3.Node, value any, replace func(any)) yamlNode {
	for node.Kind == yaml3.AliasNode {
		node = node.Alias
	}
	return yamlNode{node, value, replace}
}

// isNothing reports whether a key has no value.
func (c yamlNode) isNothing() bool { return c.node.Kind == yaml3.ScalarNode && c.value == nil }

// items returns the elements of a list; false if the node is not a list.
func (c yamlNode) items() ([]yamlNode, bool) {
	list, ok := c.value.([]any)
	if !ok || c.node.Kind != yaml3.SequenceNode || len(list) != len(c.node.Content) {
		return nil, false
	}
	out := make([]yamlNode, len(list))
	for i, node := range c.node.Content {
		out[i] = at(node, list[i], func(value any) { list[i] = value })
	}
	return out, true
}

// fields returns the keys of a mapping in the order of the file, merged keys (`<<`) last. twice has each duplicate key.
// ok is false if the node is not a mapping.
func (c yamlNode) fields() (keys, twice []field, ok bool) {
	values, ok := c.value.(map[any]any)
	if !ok || c.node.Kind != yaml3.MappingNode {
		return nil, nil, false
	}
	seen := map[string]bool{}
	collect(c.node, values, seen, &keys, &twice, 0)
	return keys, twice, true
}

// keyOf returns the decoded key of a mapping from its text, for a key that is no string, such as 5, yes or null.
func keyOf(text string) (key any) {
	if err := yaml2.Unmarshal([]byte(text), &key); err != nil || key != nil && !reflect.TypeOf(key).Comparable() {
		return text
	}
	return key
}

// maxMerges limits how deep merged mappings (`<<`) may contain merged mappings.
const maxMerges = 100

func collect(node *yaml3.Node, values map[any]any, seen map[string]bool, keys, twice *[]field, depth int) {
	var merged []*yaml3.Node
	own := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind == yaml3.ScalarNode && key.Tag == "!!merge" {
			merged = append(merged, value)
			continue
		}
		key = at(key, nil, nil).node
		f := field{key: key.Value, keyLine: key.Line, yamlNode: at(value, values[key.Value], func(value any) { values[key.Value] = value })}
		switch {
		case own[f.key]:
			*twice = append(*twice, f)
		case !seen[f.key]:
			*keys = append(*keys, f)
		}
		own[f.key], seen[f.key] = true, true
	}
	if depth == maxMerges {
		return
	}
	for _, from := range merged {
		from = at(from, nil, nil).node
		sources := []*yaml3.Node{from}
		if from.Kind == yaml3.SequenceNode {
			sources = from.Content
		}
		for _, source := range sources {
			if source = at(source, nil, nil).node; source.Kind == yaml3.MappingNode {
				collect(source, values, seen, keys, twice, depth+1)
			}
		}
	}
}
