"""Services that score tables. The model behind all of them is `approves`: it needs every column in its place."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, ClassVar

from vendor_server import Refusal, Reply, Request, Vendor, authorized, bearer, expect, secret_of, signed

TEXT_COLUMNS, NUMBER_COLUMNS = ["age", "income", "job"], ["age", "income", "debt"]


def approves(age: float, income: float, third: str | float) -> bool:
    """The model of these tests."""
    return income - age + (30 * third.startswith("nurse") if isinstance(third, str) else -third) > 20


def probability(row: Sequence[Any]) -> float:
    """Of the last class."""
    return 0.875 if approves(*row) else 0.25


class TableVendor(Vendor):
    """What the services have in common."""

    path: ClassVar[str] = ""

    def answer(self, request: Request) -> Any:
        expect((request.method, request.path) == ("POST", self.path), "no such method and path")
        self.check_credentials(request)
        rows = self.rows(request)
        expect(rows, "no rows")
        self.refuse_bad(rows)
        return self.answers(rows)

    def check_credentials(self, request: Request) -> None:
        """None are needed."""

    def rows(self, request: Request) -> list[list[Any]]:
        raise NotImplementedError

    def answers(self, rows: list[list[Any]]) -> Any:
        raise NotImplementedError


def named(rows: Sequence[Sequence[Any]]) -> list[str]:
    return ["approved" if approves(*row) else "declined" for row in rows]


def both(rows: Sequence[Sequence[Any]]) -> list[list[float]]:
    return [[1 - probability(row), probability(row)] for row in rows]


def of_records(records: list[dict[str, Any]]) -> list[list[Any]]:
    expect(all(list(record) == TEXT_COLUMNS for record in records), "other features than those of the model")
    return [list(record.values()) for record in records]


def of_split(split: dict[str, Any], keys: set[str]) -> list[list[Any]]:
    expect(set(split) == keys and split["columns"] == TEXT_COLUMNS, f"expected {keys} with the columns of the model")
    return split["data"]


class MlflowScoring(TableVendor):
    path = "/invocations"
    refusal = Reply(400, {"error_code": "BAD_REQUEST", "message": "Failed to enforce schema of data"})

    def rows(self, request):
        data = request.json()
        expect(list(data) == ["dataframe_split"], "expected dataframe_split")
        return of_split(data["dataframe_split"], {"columns", "data"})

    def answers(self, rows):
        return {"predictions": named(rows)}


class KserveTensor(TableVendor):
    path = "/v2/models/credit/infer"
    refusal = Reply(400, {"error": "unexpected value in tensor"})

    def rows(self, request):
        data = request.json()
        [tensor] = data["inputs"]
        n, width = tensor["shape"]
        expect(
            set(tensor) == {"name", "shape", "datatype", "data"} and tensor["datatype"] == "FP32", "expected one FP32 tensor"
        )
        expect(width == 3 and len(tensor["data"]) == n * width, "data and shape differ")
        expect([output["name"] for output in data["outputs"]] == ["predict", "predict_proba"], "unknown output")
        return [tensor["data"][start : start + width] for start in range(0, n * width, width)]

    def answers(self, rows):
        n = len(rows)
        flat = [score for scores in both(rows) for score in scores]
        labels = [int(approves(*row)) for row in rows]
        return {
            "model_name": "credit",
            "outputs": [
                {"name": "predict_proba", "shape": [n, 2], "datatype": "FP64", "data": flat},
                {"name": "predict", "shape": [n, 1], "datatype": "INT64", "data": labels},
            ],
        }


class KserveColumns(TableVendor):
    path = "/v2/models/credit/infer"
    refusal = Reply(400, {"error": "could not convert string to float"})

    def rows(self, request):
        data = request.json()
        expect(data["parameters"] == {"content_type": "pd"}, "expected the pandas codec")
        tensors = data["inputs"]
        expect([tensor["name"] for tensor in tensors] == TEXT_COLUMNS, "expected a tensor per column")
        for tensor in tensors:
            texts = any(isinstance(value, str) for value in tensor["data"])
            expect(tensor["datatype"] == ("BYTES" if texts else "FP64"), "the datatype does not fit the data")
            expect(tensor.get("parameters") == ({"content_type": "str"} if texts else None), "no content type of texts")
            expect(tensor["shape"] == [len(tensor["data"]), 1], "data and shape differ")
        return [list(row) for row in zip(*(tensor["data"] for tensor in tensors), strict=True)]

    def answers(self, rows):
        output = {"name": "predict", "shape": [len(rows), 1], "datatype": "BYTES", "data": named(rows)}
        return {"model_name": "credit", "outputs": [output]}


class TfServing(TableVendor):
    path = "/v1/models/credit:predict"
    refusal = Reply(400, {"error": "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT"})

    def rows(self, request):
        data = request.json()
        expect(set(data) == {"signature_name", "instances"}, "expected instances")
        return data["instances"]

    def answers(self, rows):
        return {"predictions": both(rows)}


class Vertex(TableVendor):
    path = "/v1/projects/my-project/locations/europe-west4/endpoints/1234567890:predict"
    refusal = Reply(400, {"error": {"code": 400, "message": "Unable to coerce value", "status": "INVALID_ARGUMENT"}})

    def answer(self, request):
        if request.host != "metadata.google.internal":
            return super().answer(request)
        path = "/computeMetadata/v1/instance/service-accounts/default/token"
        expect((request.method, request.path) == ("GET", path), "no such method and path")
        expect(request.headers.get("Metadata-Flavor") == "Google", "no Metadata-Flavor")
        return {"access_token": secret_of("GOOGLE_TOKEN"), "expires_in": 3599, "token_type": "Bearer"}

    def check_credentials(self, request):
        bearer(request, "GOOGLE_TOKEN")

    def rows(self, request):
        return of_records(request.json()["instances"])

    def answers(self, rows):
        predictions = [{"classes": ["declined", "approved"], "scores": scores} for scores in both(rows)]
        return {"predictions": predictions, "deployedModelId": "42"}


class SageMaker(TableVendor):
    """`one_line`: older containers put the scores of all rows on one line."""

    path = "/endpoints/my-endpoint/invocations"
    refusal = Reply(
        424,
        {
            "ErrorCode": "CLIENT_ERROR_FROM_MODEL",
            "Message": "Received client error (415) from primary with message ...",
            "OriginalStatusCode": 415,
        },
        {"x-amzn-errortype": "ModelError"},
    )
    one_line = False

    def check_credentials(self, request):
        signed(request, "sagemaker")


class SageMakerCsv(SageMaker):
    def rows(self, request):
        expect((request.type, request.headers["Accept"]) == ("text/csv", "text/csv"), "expected CSV")
        rows = [[float(cell) for cell in row] for row in csv.reader(io.StringIO(request.body.decode()))]
        expect(all(len(row) == 3 for row in rows), "wrong number of columns")
        return rows

    def answers(self, rows):
        scores = [str(probability(row)) for row in rows]
        return Reply(200, ("," if self.one_line else "\n").join(scores) + "\n", {"Content-Type": "text/csv; charset=utf-8"})


class SageMakerJson(SageMaker):
    def rows(self, request):
        instances = request.json()["instances"]
        expect(all(list(instance) == ["features"] and len(instance["features"]) == 3 for instance in instances), "features")
        return [instance["features"] for instance in instances]

    def answers(self, rows):
        return {"predictions": [{"score": probability(row), "predicted_label": int(approves(*row))} for row in rows]}


class AzureMl(TableVendor):
    """A scoring script with json.dumps gives a JSON text that holds JSON; others are `plain`."""

    plain = False
    path = "/score"
    refusal = Reply(424, {"error": {"code": "BadArgument", "message": "An error occurred while scoring"}})

    def check_credentials(self, request):
        bearer(request, "AZUREML_KEY")

    def rows(self, request):
        rows = of_split(request.json()["input_data"], {"columns", "index", "data"})
        expect(request.json()["input_data"]["index"] == list(range(len(rows))), "the index does not fit the data")
        return rows

    def answers(self, rows):
        text = json.dumps(named(rows))
        return Reply(200, text if self.plain else json.dumps(text))


class Wml(TableVendor):
    """Tokens are valid until `expire`."""

    path = "/ml/v4/deployments/my-deployment/predictions"
    refusal = Reply(400, {"trace": "1", "errors": [{"code": "invalid_input", "message": "Input data does not fit the model"}]})

    def __init__(self) -> None:
        super().__init__()
        self.issued = 0

    def expire(self) -> None:
        """Every token issued so far is worth nothing from now on."""
        self.valid_from = self.issued + 1

    valid_from = 1

    def answer(self, request):
        if request.host != "iam.cloud.ibm.com":
            expect(request.query == {"version": "2021-05-01"}, "no version")
            return super().answer(request)
        expect((request.method, request.path) == ("POST", "/identity/token"), "no such method and path")
        form = request.form()
        expect(form.get("grant_type") == "urn:ibm:params:oauth:grant-type:apikey", "another grant type")
        expect(form.get("apikey") == secret_of("IBM_API_KEY"), "Provided API key could not be found.")
        expect("Authorization" not in request.headers, "the token of the service was sent to IAM")
        with self.lock:
            self.issued += 1
            return {"access_token": f"token-{self.issued}", "token_type": "Bearer", "expires_in": 3600}

    def check_credentials(self, request):
        scheme, _, token = request.headers.get("Authorization", "").partition(" token-")
        authorized(scheme == "Bearer" and token.isdigit() and self.valid_from <= int(token) <= self.issued)

    def rows(self, request):
        [table] = request.json()["input_data"]
        expect(table["fields"] == TEXT_COLUMNS, "other fields than those of the model")
        return table["values"]

    def answers(self, rows):
        values = [[label, scores] for label, scores in zip(named(rows), both(rows), strict=True)]
        return {"predictions": [{"fields": ["prediction", "probability"], "values": values}]}


class Seldon(TableVendor):
    path = "/seldon/models/credit/api/v1.0/predictions"
    refusal = Reply(500, {"status": {"code": -1, "info": "could not convert", "reason": "MICROSERVICE_INTERNAL_ERROR"}})

    def rows(self, request):
        data = request.json()["data"]
        expect(data["names"] == TEXT_COLUMNS, "other names than those of the model")
        return data["ndarray"]

    def answers(self, rows):
        return {"data": {"names": ["t:0", "t:1"], "ndarray": both(rows)}, "meta": {"requestPath": {"credit": "v1"}}}


class Bento(TableVendor):
    path = "/classify"
    refusal = Reply(500, {"error": "An unexpected error has occurred, please check the server log."})

    def rows(self, request):
        data = request.json()
        expect(list(data) == ["input_df"], "expected the parameter input_df")
        return of_records(data["input_df"])

    def answers(self, rows):
        return named(rows)


class JsonEndpoint(TableVendor):
    path = "/v1/score"

    def check_credentials(self, request):
        bearer(request, "CREDIT_TOKEN")

    def rows(self, request):
        data = request.json()
        expect(data["fields"] == TEXT_COLUMNS, "other fields than those of the model")
        return data["values"]

    def answers(self, rows):
        return {
            "predictions": [{"label": name, "scores": scores} for name, scores in zip(named(rows), both(rows), strict=True)]
        }


class ScoreEndpoint(TableVendor):
    """Columns amount, country, hour: suspicious are large amounts at night."""

    path = "/v1/score"

    def check_credentials(self, request):
        authorized(request.headers.get("X-Api-Key") == secret_of("FRAUD_KEY"))

    def rows(self, request):
        instances = request.json()["instances"]
        if any(list(one) != ["amount", "country", "hour"] for one in instances):
            raise Refusal(Reply(422, {"detail": "field required"}))
        return [list(one.values()) for one in instances]

    def answers(self, rows):
        return {"scores": [0.5 if amount > 100 and hour < 6 else 0.125 for amount, _, hour in rows]}
