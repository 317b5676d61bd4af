// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

const (
	// tenantNamespace is the namespace in which the tenant has rights, and tenantAccount its service account.
	tenantNamespace = "tenant"
	tenantAccount   = "tenant"
	// stormers is the number of concurrent calls of a storm.
	stormers = 8
	// callTimeout is the timeout of the tenant's and the victim's calls. A hanging webhook has 10 s.
	callTimeout = 15 * time.Second
)

// tenant is the attacker: a service account with the rights of the role edit, and the rights that users of gangs
// need, in its own namespace only.
type tenant struct {
	kube kubernetes.Interface
	vc   vcclient.Interface
	dyn  dynamic.Interface

	mu     sync.Mutex
	random *rand.Rand
	tally
}

// tally counts calls.
type tally struct {
	done, refused int
	// refusal is the first error.
	refusal string
}

// userKinds are the kinds that users of gangs write in addition to the role edit's.
var userKinds = []rbacv1.PolicyRule{
	{APIGroups: []string{"scheduling.volcano.sh", "scheduling.sigs.k8s.io"}, Resources: []string{"podgroups"}, Verbs: []string{"*"}},
	{APIGroups: []string{"batch.volcano.sh"}, Resources: []string{"jobs", "cronjobs"}, Verbs: []string{"*"}},
	{APIGroups: []string{"bus.volcano.sh"}, Resources: []string{"commands"}, Verbs: []string{"*"}},
	{APIGroups: []string{"flow.volcano.sh"}, Resources: []string{"jobflows", "jobtemplates"}, Verbs: []string{"*"}},
	{APIGroups: []string{"resource.k8s.io"}, Resources: []string{"resourceclaims", "resourceclaimtemplates"}, Verbs: []string{"*"}},
}

// admit creates the tenant's account and roles.
func admit(ctx context.Context, kube kubernetes.Interface) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: tenantAccount}}
	if _, err := kube.CoreV1().ServiceAccounts(tenantNamespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	rbac := kube.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: tenantAccount}, Rules: userKinds}
	if _, err := rbac.Roles(tenantNamespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, ref := range []rbacv1.RoleRef{
		{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}, {APIGroup: rbacv1.GroupName, Kind: "Role", Name: tenantAccount},
	} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, RoleRef: ref,
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tenantNamespace, Name: tenantAccount}},
		}
		if _, err := rbac.RoleBindings(tenantNamespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// newTenant returns the tenant once its rights are effective.
func (s *testbed) newTenant(ctx context.Context) (*tenant, error) {
	config, err := s.cp.ServiceAccountConfig(ctx, tenantNamespace, tenantAccount)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Timeout = -1, callTimeout
	t := &tenant{random: rand.New(rand.NewPCG(s.opts.seed, 1))}
	if t.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if t.vc, err = vcclient.NewForConfig(config); err != nil {
		return nil, err
	}
	if t.dyn, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	return t, eventually(ctx, time.Minute, func() error {
		_, err := t.kube.CoreV1().Pods(tenantNamespace).Create(ctx, newPod("rights"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return fmt.Errorf("the tenant cannot create pods: %w", err)
		}
		_, err = t.kube.CoreV1().Pods(victimNamespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			return fmt.Errorf("the tenant can list pods of namespace %s; it must not have rights there", victimNamespace)
		}
		return nil
	})
}

// note counts a call, unless the end of the attack interrupted it.
func (t *tenant) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.done++
		return
	}
	t.refused++
	if t.refusal == "" {
		t.refusal = err.Error()
	}
}

// takeTally returns the counts and resets them.
func (t *tenant) takeTally() tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.tally
	t.tally = tally{}
	return taken
}

func (t *tenant) intN(n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.random.IntN(n)
}

// storm calls act as fast as the API server answers until the context ends. n counts up from 0.
func (t *tenant) storm(ctx context.Context, act func(n int) error) {
	t.spread(ctx, -1, act)
}

// each calls act for the numbers below count.
func (t *tenant) each(ctx context.Context, count int, act func(n int) error) {
	t.spread(ctx, count, act)
}

// spread calls act concurrently for the numbers below count, or without end if count is negative.
func (t *tenant) spread(ctx context.Context, count int, act func(n int) error) {
	var next atomic.Int64
	var work sync.WaitGroup
	for range stormers {
		work.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1) - 1)
				if count >= 0 && n >= count {
					return
				}
				t.note(ctx, act(n))
			}
		})
	}
	work.Wait()
}

// submit creates the gangs, each PodGroup before its pods, and several pods at a time.
func (t *tenant) submit(ctx context.Context, gangs ...gang) {
	t.each(ctx, len(gangs), func(n int) error { return t.createGroup(ctx, gangs[n]) })
	type place struct{ gang, member int }
	var places []place
	for g := range gangs {
		for i := range gangs[g].size {
			places = append(places, place{g, i})
		}
	}
	t.each(ctx, len(places), func(n int) error { return t.createPod(ctx, gangs[places[n].gang].member(places[n].member)) })
}

func (t *tenant) createGroup(ctx context.Context, g gang) error {
	_, err := t.vc.SchedulingV1beta1().PodGroups(tenantNamespace).Create(ctx, g.podGroup(), metav1.CreateOptions{})
	return err
}

func (t *tenant) createPod(ctx context.Context, pod *corev1.Pod) error {
	_, err := t.kube.CoreV1().Pods(tenantNamespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

func (t *tenant) deleteGroup(ctx context.Context, name string) error {
	return t.vc.SchedulingV1beta1().PodGroups(tenantNamespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func (t *tenant) deletePod(ctx context.Context, name string) error {
	return t.kube.CoreV1().Pods(tenantNamespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func (t *tenant) getPod(ctx context.Context, name string) (*corev1.Pod, error) {
	return t.kube.CoreV1().Pods(tenantNamespace).Get(ctx, name, metav1.GetOptions{})
}

func (t *tenant) patchGroup(ctx context.Context, name, patch string) error {
	_, err := t.vc.SchedulingV1beta1().PodGroups(tenantNamespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (t *tenant) patchPod(ctx context.Context, name, patch string) error {
	_, err := t.kube.CoreV1().Pods(tenantNamespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// hold waits for the end of the attack.
func hold(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// repeat calls act every interval until the context ends.
func repeat(ctx context.Context, interval time.Duration, act func()) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		act()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// eventually calls check until it returns nil or maxWait is over. It then returns the last error of check.
func eventually(ctx context.Context, maxWait time.Duration, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (after %s)", err, maxWait)
		case <-ticker.C:
		}
	}
}
