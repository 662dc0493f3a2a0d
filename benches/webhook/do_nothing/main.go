// A validating webhook in Go that allows every object, like those in tutorials: net/http, TLS, and the types of
// k8s.io/api/admission/v1. It decodes the AdmissionReview, leaves the object in it unparsed, and returns the uid.
//
// Usage: do-nothing FOLDER, which contains tls.crt and tls.key. It prints its address.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	admission "k8s.io/api/admission/v1"
)

func allow(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	var review admission.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(response, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	answer, err := json.Marshal(admission.AdmissionReview{
		TypeMeta: review.TypeMeta,
		Response: &admission.AdmissionResponse{UID: review.Request.UID, Allowed: true},
	})
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	if _, err := response.Write(answer); err != nil {
		log.Print(err)
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: do-nothing FOLDER")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	http.HandleFunc("/mutate", allow)
	certificate, key := filepath.Join(os.Args[1], "tls.crt"), filepath.Join(os.Args[1], "tls.key")
	log.Fatal(http.ServeTLS(listener, nil, certificate, key))
}
