// SPDX-License-Identifier: Apache-2.0

package bindpolicy

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// The variables that an expression of a policy can use.
const (
	podVariable      = "pod"
	nodeVariable     = "node"
	podGroupVariable = "podGroup"
)

// expression is a compiled CEL expression. It is safe for concurrent use.
type expression struct {
	text string
	// variables are the names of the variables that the expression uses. Their objects must be read before the
	// expression is evaluated.
	variables []string
	program   cel.Program
	// costLimit is the cost limit of the expression. It also stands for the cost of an evaluation that ended without
	// reporting its cost.
	costLimit uint64
}

// newEnv returns the CEL environment of policies: all function libraries of the Kubernetes API server, and the
// variables of expressions.
//
// The variables have the API objects' types, so that a misspelt field is found when the configuration is loaded. The
// types are derived from the Go types of the API (types.go); they are not cel-go native types. So the values are the
// objects as the API server serializes them, with JSON field names. has() then distinguishes an absent field from a
// zero value, and quantities and times are strings for quantity() and timestamp(). An expression of a
// ValidatingAdmissionPolicy therefore means the same here.
func newEnv() (*cel.Env, error) {
	declare := newDeclarer()
	options := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
	for _, variable := range []struct {
		name     string
		declType *apiservercel.DeclType
	}{
		{podVariable, typeOf[corev1.Pod](declare)},
		{nodeVariable, typeOf[corev1.Node](declare)},
		{podGroupVariable, typeOf[schedulingv1beta1.PodGroup](declare)},
	} {
		options.DeclTypes = append(options.DeclTypes, variable.declType)
		options.EnvOptions = append(options.EnvOptions, cel.Variable(variable.name, variable.declType.CelType()))
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true)
	set, err := base.Extend(options)
	if err != nil {
		return nil, fmt.Errorf("creating the CEL environment: %w", err)
	}
	return set.StoredExpressionsEnv(), nil
}

// compilePolicies compiles and type-checks the policies. The error names every expression that does not compile.
func compilePolicies(configs []policyConfig) ([]*policy, error) {
	if len(configs) == 0 {
		return nil, nil
	}
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	var policies []*policy
	var errs []error
	for _, config := range configs {
		compile := func(field, text string, want *cel.Type) *expression {
			if text == "" {
				return nil
			}
			x, err := compileExpression(env, field, text, want, config.costLimit)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: policy %q: field %q %w", policiesArgument, config.name, field, err))
			}
			return x
		}
		policies = append(policies, &policy{
			name:              config.name,
			matchCondition:    compile("matchCondition", config.matchCondition, cel.BoolType),
			expression:        compile("expression", config.expression, cel.BoolType),
			messageExpression: compile("messageExpression", config.messageExpression, cel.StringType),
			message:           config.message,
			failurePolicy:     config.failurePolicy,
		})
	}
	return policies, errors.Join(errs...)
}

func compileExpression(env *cel.Env, field, text string, want *cel.Type, costLimit uint64) (*expression, error) {
	ast, issues := env.CompileSource(common.NewStringSource(text, field))
	if issues.Err() != nil {
		return nil, fmt.Errorf("does not compile:\n%w", issues.Err())
	}
	if got := ast.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("is of type %s, want %s: %s", got, want, brief.Part(text))
	}
	program, err := env.Program(ast,
		cel.CostLimit(costLimit),
		cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return nil, fmt.Errorf("cannot be evaluated: %w", err)
	}
	return &expression{text: text, variables: variablesOf(ast), program: program, costLimit: costLimit}, nil
}

// variablesOf returns the variables that the expression uses. If a comprehension declares its own variable with one of
// these names, the name counts too; the only effect is a needless read.
func variablesOf(ast *cel.Ast) []string {
	named := map[string]bool{}
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() == celast.IdentKind {
			named[e.AsIdent()] = true
		}
	}))
	var variables []string
	for _, name := range []string{podVariable, nodeVariable, podGroupVariable} {
		if named[name] {
			variables = append(variables, name)
		}
	}
	return variables
}
