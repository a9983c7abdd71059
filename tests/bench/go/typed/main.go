// The server in plain Go: net/http and encoding/json into the typed structs of k8s.io/api. The patch is a constant.
// Arguments: port, certificate, key.
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	registry = "registry.example.com/"
	label    = "admission.example.com/checked"
)

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// object decodes the object of a review into the struct of its kind.
func object(request *admissionv1.AdmissionRequest) (*metav1.ObjectMeta, *corev1.PodSpec, error) {
	if request.Kind.Kind == "Deployment" {
		var deployment appsv1.Deployment
		err := json.Unmarshal(request.Object.Raw, &deployment)
		return &deployment.ObjectMeta, &deployment.Spec.Template.Spec, err
	}
	var pod corev1.Pod
	err := json.Unmarshal(request.Object.Raw, &pod)
	return &pod.ObjectMeta, &pod.Spec, err
}

// validate applies the validating rule: every image comes from the registry.
func validate(spec *corev1.PodSpec) string {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			if !strings.HasPrefix(containers[i].Image, registry) {
				return "image " + containers[i].Image + " is not from " + registry
			}
		}
	}
	return ""
}

// mutate applies the mutating rule: it adds the label.
func mutate(meta *metav1.ObjectMeta) []operation {
	if meta.Labels == nil {
		return []operation{{"add", "/metadata/labels", map[string]string{label: "true"}}}
	}
	if meta.Labels[label] != "true" {
		return []operation{{"add", "/metadata/labels/admission.example.com~1checked", "true"}}
	}
	return nil
}

func answer(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	meta, spec, err := object(request)
	if err != nil {
		return nil, err
	}
	response := &admissionv1.AdmissionResponse{UID: request.UID}
	if message := validate(spec); message != "" {
		response.Result = &metav1.Status{Code: 403, Message: message}
		return response, nil
	}
	response.Allowed = true
	if operations := mutate(meta); operations != nil {
		patchType := admissionv1.PatchTypeJSONPatch
		response.PatchType = &patchType
		response.Patch, err = json.Marshal(operations)
	}
	return response, err
}

func admit(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	response, err := answer(review.Request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out)
}

func main() {
	http.HandleFunc("/admit", admit)
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+os.Args[1], os.Args[2], os.Args[3], nil))
}
