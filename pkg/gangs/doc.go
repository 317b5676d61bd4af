// SPDX-License-Identifier: Apache-2.0

// Package gangs reads what people say of a gang beside its minimum: whether it is strict, which gangs it is a group with, which
// of its members count, how long it waits. The words are Koordinator's (annotations gang.scheduling.koordinator.sh/*), on pods, on
// PodGroups of scheduling.sigs.k8s.io and on Volcano's PodGroups. A Volcano PodGroup is the one model that the scheduler knows;
// the controller in pkg/controllers/gangs maps every other way to say "gang" to it.
//
// What cannot be understood is a Mistake, which says what is taken instead. Nothing is taken in silence.
package gangs
