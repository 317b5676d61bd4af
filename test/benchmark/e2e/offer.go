// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// driver sends load to the API server without its own rate limit.
type driver struct {
	kube    kubernetes.Interface
	vc      vcclient.Interface
	writers int
	// created, if not nil, is called for each created pod.
	created func(*corev1.Pod)
}

func newDriver(config *rest.Config, writers int) (*driver, error) {
	client, err := protobufClient(config)
	if err != nil {
		return nil, err
	}
	vc, err := vcclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &driver{kube: client, vc: vc, writers: writers}, nil
}

// openQueue opens the queue, which Volcano's controllers would do. They do not run here, and a queue accepts no pods
// until it is Open.
func (d *driver) openQueue(ctx context.Context) error {
	queues := d.vc.SchedulingV1beta1().Queues()
	queue, err := queues.Get(ctx, controlplane.DefaultQueue, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("opening the queue: %w", err)
	}
	queue.Status.State = v1beta1.QueueStateOpen
	if _, err := queues.UpdateStatus(ctx, queue, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("opening the queue: %w", err)
	}
	return nil
}

func protobufClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// creation is a write for a gang that is sent to the API server.
type creation struct {
	gang *gang
	send func(ctx context.Context) error
}

// everything returns the PodGroups and pods, gang by gang.
func (d *driver) everything(gangs []*gang) []creation {
	var all []creation
	for _, g := range gangs {
		all = append(all, d.podGroups([]*gang{g})...)
		all = append(all, d.pods([]*gang{g})...)
	}
	return all
}

func (d *driver) pods(gangs []*gang) []creation {
	var all []creation
	for _, g := range gangs {
		for _, pod := range g.pods {
			all = append(all, creation{g, func(ctx context.Context) error {
				if _, err := d.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
					return fmt.Errorf("creating pod %s: %w", pod.Name, err)
				}
				if d.created != nil {
					d.created(pod)
				}
				return nil
			}})
		}
	}
	return all
}

// nominations returns writes that copy the node of each pod's nodeSelector into its status, as preemption does.
func (d *driver) nominations(gangs []*gang) []creation {
	var all []creation
	for _, g := range gangs {
		for _, pod := range g.pods {
			all = append(all, creation{g, func(ctx context.Context) error {
				patch := fmt.Sprintf(`{"status":{"nominatedNodeName":%q}}`, pod.Spec.NodeSelector[corev1.LabelHostname])
				_, err := d.kube.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
				if err != nil {
					return fmt.Errorf("nominating a node for pod %s: %w", pod.Name, err)
				}
				return nil
			}})
		}
	}
	return all
}

func (d *driver) podGroups(gangs []*gang) []creation {
	var all []creation
	for _, g := range gangs {
		if g.podGroup == nil {
			continue
		}
		all = append(all, creation{g, func(ctx context.Context) error {
			if _, err := d.vc.SchedulingV1beta1().PodGroups(g.podGroup.Namespace).Create(ctx, g.podGroup, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating PodGroup %s: %w", g.podGroup.Name, err)
			}
			return nil
		}})
	}
	return all
}

// send sends the writes in order, several at a time, sets the clocks of their gangs, and returns the time when the
// first was sent.
func (d *driver) send(ctx context.Context, all []creation) (time.Time, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		next int
		wg   sync.WaitGroup
	)
	first := time.Now()
	take := func() (creation, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(all) || ctx.Err() != nil {
			return creation{}, false
		}
		c := all[next]
		next++
		c.gang.clock = time.Now()
		return c, true
	}
	for range d.writers {
		wg.Go(func() {
			for c, ok := take(); ok; c, ok = take() {
				if err := c.send(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return first, err
	}
	return first, ctx.Err()
}
