// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"
	batchv1alpha1 "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// codeStrings returns the string literals and constants of the packages below pkg that are neither generated nor for
// tests. A concatenation of literals and constants of one package is one string.
func codeStrings(t *testing.T) map[string]bool {
	t.Helper()
	packages := map[string][]*ast.File{}
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "client" || name == "testing"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			packages[filepath.Dir(file)] = append(packages[filepath.Dir(file)], parsed)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, files := range packages {
		constants := constantsOf(files)
		for _, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				if _, imports := n.(*ast.ImportSpec); imports {
					return false
				}
				if expr, ok := n.(ast.Expr); ok {
					if text, ok := constants.value(expr); ok {
						all[text] = true
					}
				}
				return true
			})
		}
	}
	if len(all) < 1000 {
		t.Fatalf("%d strings found below pkg, want more", len(all))
	}
	return all
}

// constants maps the constants of a package to their values.
type constants map[string]ast.Expr

func constantsOf(files []*ast.File) constants {
	all := constants{}
	for _, file := range files {
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if i < len(value.Values) {
						all[name.Name] = value.Values[i]
					}
				}
			}
		}
	}
	return all
}

// value returns the string that the expression evaluates to.
func (c constants) value(expr ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.Ident:
		if value, ok := c[e.Name]; ok {
			return c.value(value)
		}
	case *ast.BinaryExpr:
		left, ok := c.value(e.X)
		right, also := c.value(e.Y)
		return left + right, ok && also && e.Op == token.ADD
	}
	return "", false
}

// quotedNames returns the strings in backquotes on the page that match the whole pattern.
func quotedNames(page string, pattern *regexp.Regexp) map[string]bool {
	names := map[string]bool{}
	for _, match := range quoted.FindAllString(fenced.ReplaceAllString(page, ""), -1) {
		if name := strings.Trim(match, "`"); pattern.MatchString(name) {
			names[name] = true
		}
	}
	return names
}

// compareNames compares the names that match the pattern on the page and in the code. It reports names of the code that
// the page lacks, except others, and names of the page that neither the code nor upstream has. It also reports others
// that the code lacks.
func compareNames(t *testing.T, page string, code map[string]bool, pattern *regexp.Regexp, others, upstream []string) {
	t.Helper()
	onPage := quotedNames(readPages(t)[page], pattern)
	for name := range code {
		if pattern.MatchString(name) && !onPage[name] && !slices.Contains(others, name) {
			t.Errorf("%s lacks `%s`, which the code has; if it is something else, add it to the names of this test", page, name)
		}
	}
	for name := range onPage {
		if !code[name] && !slices.Contains(upstream, name) {
			t.Errorf("%s has `%s`, which the code does not have", page, name)
		}
	}
	for _, name := range others {
		if !code[name] {
			t.Errorf("the test has %q among other names, and the code does not have it", name)
		}
	}
}

// TestThePageHasTheAnnotationsOfTheCode compares docs/annotations.md with the keys that the code has.
func TestThePageHasTheAnnotationsOfTheCode(t *testing.T) {
	keys := regexp.MustCompile(`^(?:[a-z0-9-]+\.)+(?:io|sh|com|run)/[A-Za-z0-9._-]*[A-Za-z0-9]$|^pod-group\.scheduling\.sigs\.k8s\.io$`)
	others := []string{
		// API versions, and drivers and provisioners of volumes.
		"coordination.k8s.io/v1", "rancher.io/local-path", "csi.storage.k8s.io/csi-driver-name",
		// Resources.
		"amd.com/gpu", "dcu.com/gpu", "nvidia.com/gpu", "koordinator.sh/gpu", "koordinator.sh/gpu.shared", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory",
		"koordinator.sh/gpu-memory-ratio", "koordinator.sh/rdma", "koordinator.sh/fpga", "huawei.com/npu-cpu", "huawei.com/npu-dvpp",
		// Upstream's device code.
		"volcano.sh/vgpu-mode", "volcano.sh/gpu-index",
		// A condition of pods.
		"scheduling.volcano-prebind.io/Evicted",
	}
	upstream := []string{
		v1beta1.KubeGroupNameAnnotationKey, v1beta1.VolcanoGroupMinMemberAnnotationKey, v1beta1.QueueNameAnnotationKey,
		batchv1alpha1.TaskIndex, batchv1alpha1.TaskSpecKey, batchv1.JobCompletionIndexAnnotation, volumehelpers.AnnSelectedNode,
	}
	compareNames(t, "docs/annotations.md", codeStrings(t), keys, others, upstream)
}

// TestThePageHasTheConditionsAndEventsOfTheCode compares docs/conditions.md with the types and reasons in the code.
// Names of one word only, such as Pending, are not compared.
func TestThePageHasTheConditionsAndEventsOfTheCode(t *testing.T) {
	names := regexp.MustCompile(`^[A-Z]+[a-z]+(?:[A-Z]+[a-z]*)+$`)
	others := []string{
		// Kinds, and values of annotations and arguments.
		"ClusterTopologyLayer", "NodeTopologyLayer", "DaemonSet", "HyperNode", "PodGroup", "ReplicaSet", "ReplicationController", "ResourceClaim", "StatefulSet",
		"ApplyForAll", "BestEffort", "DeviceLevel", "RequestsAsCount", "NonStrict", "MustGather", "PreferGather", "LeastAllocated", "MostAllocated",
		"PCIeLevel", "SamePCIe",
		// Phases, feature gates, and names that appear only in the log, in the code or to authors of plugins.
		"PreScheduling", "QueueSort", "NotRegistered", "HyperNodes", "EnabledClusterOrder", "DRAAdminAccess", "DRAConsumableCapacity", "DRAPrioritizedList",
		"WaitingAfterEviction", "WaitingForTurnToEvict", "NotEvictedFor",
		// Parts of the template of docs/configuration.md.
		"BuiltIn", "UpstreamPlugins", "OurPlugins",
	}
	upstream := []string{
		v1beta1.NotEnoughResourcesReason, v1beta1.NotEnoughPodsReason, v1beta1.NotEnoughPodsOfTaskReason,
		v1.PodReasonSchedulerError, v1.PodReasonPreemptionByScheduler, v1.PodReasonSchedulingGated, string(v1.DisruptionTarget), string(v1.PodScheduled),
	}
	code := codeStrings(t)
	compareNames(t, "docs/conditions.md", code, names, others, append(upstream, "PodGroup", "HyperNode"))
}
