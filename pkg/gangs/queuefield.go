// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// QueueField names, in messages to users, where the gang's queue is set. That is spec.queue of its Volcano PodGroup, or an
// annotation if the gang controller made the PodGroup, because the controller overwrites spec.queue.
func QueueField(podGroup metav1.Object) string {
	if podGroup.GetAnnotations()[SourceAnnotation] != "" {
		return "the annotation " + v1beta1.QueueNameAnnotationKey
	}
	return "spec.queue"
}
