package clientgo

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// expectStatus compares all of a refusal but its message, of which only the beginning has to be right.
func expectStatus(t *testing.T, err error, code int32, reason metav1.StatusReason, message string, details *metav1.StatusDetails) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Errorf("expected a status of code %d (%s), got %v", code, reason, err)
		return
	}
	have := status.Status()
	t.Logf("%s", asJSON(have))
	if have.Status != metav1.StatusFailure || have.Code != code || have.Reason != reason {
		t.Errorf("expected a failure of code %d (%s), got %s", code, reason, asJSON(have))
	}
	if !strings.HasPrefix(have.Message, message) {
		t.Errorf("expected a message that begins with %q, got %q", message, have.Message)
	}
	if have.Details == nil || details == nil {
		if have.Details != details {
			t.Errorf("expected the details %s, got %s", asJSON(details), asJSON(have.Details))
		}
		return
	}
	// The texts of causes are for people, and kube-apiserver tells some causes twice.
	shown := have.Details.DeepCopy()
	for i := range shown.Causes {
		shown.Causes[i].Message = ""
	}
	shown.Causes = slices.Compact(shown.Causes)
	if !reflect.DeepEqual(shown, details) {
		t.Errorf("expected the details %s, got %s", asJSON(details), asJSON(shown))
	}
}
