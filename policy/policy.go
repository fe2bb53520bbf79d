package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"kaas/internal/limits"
)

// Kind says which requests a policy is for, and so which names it knows.
type Kind uint8

// The kinds.
const (
	CreateTopic Kind = iota // also auto-creation, with an empty principal
	AlterConfig
	DeleteTopic
)

// Key is the configuration key that holds a policy of the kind.
func (k Kind) Key() string {
	return [...]string{"create.topic.policy", "alter.config.policy", "delete.topic.policy"}[k]
}

// variables are what an expression may name. docs/policies.md describes them.
func (k Kind) variables() []cel.EnvOption {
	text, texts := cel.StringType, cel.MapType(cel.StringType, cel.StringType)
	common := []cel.EnvOption{
		cel.Variable("topic", text), cel.Variable("principal", text), cel.Variable("host", text), cel.Variable("validateOnly", cel.BoolType),
		cel.Variable("labels", texts), cel.Variable("annotations", texts), cel.Variable("configs", texts),
	}
	switch k {
	case CreateTopic:
		return append(common, cel.Variable("partitions", cel.IntType), cel.Variable("replicationFactor", cel.IntType))
	case AlterConfig:
		return append(common, cel.Variable("resourceType", text), cel.Variable("broker", text), cel.Variable("name", text),
			cel.Variable("removed", cel.ListType(text)), cel.Variable("effective", texts))
	case DeleteTopic:
		return append(common, cel.Variable("partitions", cel.IntType), cel.Variable("internal", cel.BoolType))
	}
	panic("BUG: a policy of no kind")
}

// Policy is one compiled expression.
type Policy struct {
	kind    Kind
	program cel.Program
}

// Compile returns nil for an empty expression. The error names the key and the
// line and column of what is wrong.
func Compile(kind Kind, expression string) (*Policy, error) {
	if strings.TrimSpace(expression) == "" {
		return nil, nil
	}
	env, err := cel.NewEnv(kind.variables()...)
	if err != nil {
		panic(fmt.Sprintf("BUG: the environment of %s: %v", kind.Key(), err))
	}
	compiled, issues := env.Compile(expression)
	if err := issues.Err(); err != nil {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("%s: line %d, column %d: %w", kind.Key(), first.Location.Line(), first.Location.Column()+1, err)
	}
	if result := compiled.OutputType(); !result.IsExactType(cel.BoolType) && !result.IsExactType(cel.StringType) && !result.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%s: line 1, column 1: the expression is of type %s; it must say true or false, or a text that is the message of the denial", kind.Key(), result)
	}
	program, err := env.Program(compiled, cel.CostLimit(limits.PolicyCost), cel.InterruptCheckFrequency(limits.PolicyInterruptCheck))
	if err != nil {
		return nil, fmt.Errorf("%s: line 1, column 1: %w", kind.Key(), err)
	}
	return &Policy{kind, program}, nil
}

// Check evaluates the policy over all variables of its kind. denial is the message
// for the client, "" when the request may pass. A nil Policy lets everything pass.
func (p *Policy) Check(ctx context.Context, variables map[string]any) (denial string) {
	if p == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, limits.PolicyTimeoutMs*time.Millisecond)
	defer cancel()
	value, _, err := p.program.ContextEval(ctx, variables)
	if err != nil {
		return fmt.Sprintf("%s can't be evaluated: %v", p.kind.Key(), err)
	}
	switch result := value.(type) {
	case types.Bool:
		if result {
			return ""
		}
		return "Denied by " + p.kind.Key() + "."
	case types.String:
		return string(result)
	}
	return fmt.Sprintf("%s can't be evaluated: it says %v, which is neither true or false nor a text", p.kind.Key(), value)
}
