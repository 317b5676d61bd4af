// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	vcscheme "volcano.sh/apis/pkg/client/clientset/versioned/scheme"

	ourscheme "github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned/scheme"
)

// TestSamples reads every sample workload strictly: a misspelled field is an error.
func TestSamples(t *testing.T) {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(vcscheme.AddToScheme(scheme))
	utilruntime.Must(ourscheme.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()

	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
			for {
				document, err := documents.Read()
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := decoder.Decode(document, nil, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
