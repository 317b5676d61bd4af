// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// permission is whether this scheduler may use the Eviction API, which upstream's role does not allow. An eviction that is
// forbidden does not show that. Admission webhooks also forbid, as do budgets that the API server cannot count down, and a server
// that has just started forbids everything. So the API server is asked.
type permission struct {
	kube kubernetes.Interface

	mu sync.Mutex
	// denied are the namespaces where this scheduler may not use the Eviction API. An entry lasts as long as the process: roles
	// rarely change, and each question costs the retries of a forbidden eviction.
	denied map[string]bool
}

// isDenied reports whether the API server has denied the permission for the namespace.
func (p *permission) isDenied(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.denied[namespace]
}

// review asks the API server whether this scheduler may create evictions in the namespace. It remembers a denial, and reports
// whether there is one. It returns false if the API server does not answer, or may have answered without knowing all roles.
func (p *permission) review(namespace string) bool {
	denial, err := p.ask(namespace)
	if err != nil {
		logger().Error(err, "Asking whether this scheduler may evict pods through the Eviction API failed", "namespace", namespace)
	}
	if !denial {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.denied[namespace] {
		logger().Info("This scheduler may not create pods/eviction; until it restarts, it deletes pods that have a PodDisruptionBudget",
			"namespace", namespace)
	}
	if p.denied == nil {
		p.denied = map[string]bool{}
	}
	p.denied[namespace] = true
	return true
}

func (p *permission) ask(namespace string) (denial bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods", Subresource: "eviction"},
	}}
	answer, err := p.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
	switch {
	case err != nil:
		return false, fmt.Errorf("creating a SelfSubjectAccessReview: %w", err)
	case !answer.Status.Allowed && answer.Status.EvaluationError != "":
		return false, errors.New(answer.Status.EvaluationError)
	}
	return !answer.Status.Allowed, nil
}
