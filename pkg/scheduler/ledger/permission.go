// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// denialLasts is how long a denial counts.
const denialLasts = 10 * time.Minute

// permission is whether this scheduler may use the Eviction API, which upstream's role does not allow. An eviction that is
// forbidden does not show that. Admission webhooks also forbid, as do budgets that the API server cannot count down, and a server
// that has just started forbids everything. So the API server is asked.
type permission struct {
	kube kubernetes.Interface

	mu sync.Mutex
	// denied has, for each namespace where this scheduler may not use the Eviction API, until when that counts: roles rarely change,
	// and each question costs the retries of a forbidden eviction.
	denied map[string]time.Time
}

// isDenied reports whether the API server has denied the permission for the namespace.
func (p *permission) isDenied(namespace string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.denied[namespace])
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
	if p.denied[namespace].IsZero() {
		logger().Info("This scheduler may not create pods/eviction; it deletes pods that have a PodDisruptionBudget", "namespace", namespace)
	}
	if p.denied == nil {
		p.denied = map[string]time.Time{}
	}
	p.denied[namespace] = time.Now().Add(denialLasts)
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
	case !answer.Status.Allowed && strings.HasPrefix(answer.Status.Reason, "RBAC: "): // it could not resolve all roles
		return false, errors.New(answer.Status.Reason)
	}
	return !answer.Status.Allowed, nil
}
