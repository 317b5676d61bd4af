// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulingv1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/webhooks/router"
)

// maxReported is the maximum number of invalid amounts that one response names.
const maxReported = 5

// rejectNegative makes the webhooks for PodGroups and queues reject negative amounts of resources, because upstream's
// scheduler panics on such amounts. The CRDs of this project reject them, too, but a cluster may have upstream's CRDs.
func rejectNegative(service *router.AdmissionService) error {
	var amounts func(raw []byte) (map[string]corev1.ResourceList, error)
	switch service.Path {
	case "/podgroups/validate":
		amounts = podGroupAmounts
	case "/queues/validate":
		amounts = queueAmounts
	default:
		return nil
	}
	next := service.Func
	service.Func = func(review admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		if review.Request == nil || review.Request.Operation == admissionv1.Delete {
			return next(review)
		}
		lists, err := amounts(review.Request.Object.Raw)
		if err != nil {
			return next(review) // the object cannot be decoded, which upstream's webhook reports
		}
		if wrong := negative(lists); wrong != "" {
			return &admissionv1.AdmissionResponse{Allowed: false, Result: &metav1.Status{Message: wrong}}
		}
		return next(review)
	}
	return nil
}

func podGroupAmounts(raw []byte) (map[string]corev1.ResourceList, error) {
	var group schedulingv1beta1.PodGroup
	if err := json.Unmarshal(raw, &group); err != nil || group.Spec.MinResources == nil {
		return nil, err
	}
	return map[string]corev1.ResourceList{"spec.minResources": *group.Spec.MinResources}, nil
}

func queueAmounts(raw []byte) (map[string]corev1.ResourceList, error) {
	var queue schedulingv1beta1.Queue
	if err := json.Unmarshal(raw, &queue); err != nil {
		return nil, err
	}
	lists := map[string]corev1.ResourceList{
		"spec.capability": queue.Spec.Capability, "spec.deserved": queue.Spec.Deserved, "spec.guarantee.resource": queue.Spec.Guarantee.Resource,
	}
	for i, cluster := range queue.Spec.ExtendClusters {
		lists[fmt.Sprintf("spec.extendClusters[%d].capacity", i)] = cluster.Capacity
	}
	return lists, nil
}

// negative returns a message that lists the negative amounts; empty if no amount is negative.
func negative(lists map[string]corev1.ResourceList) string {
	var wrong []string
	for _, field := range slices.Sorted(maps.Keys(lists)) {
		for _, name := range slices.Sorted(maps.Keys(lists[field])) {
			if amount := lists[field][name]; amount.Sign() < 0 {
				wrong = append(wrong, fmt.Sprintf("%s[%s] is %s, must be 0 or more", field, name, amount.String()))
			}
		}
	}
	if more := len(wrong) - maxReported; more > 0 {
		wrong = append(wrong[:maxReported], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(wrong, "; ")
}
