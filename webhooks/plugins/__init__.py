"""The interface for plugins: policies that an AdmissionConfiguration configures."""

from typing import TYPE_CHECKING

from webhooks._lazy import lazy_exports

if TYPE_CHECKING:
    from webhooks.config.document import Document as Document
    from webhooks.config.validation import FieldError as FieldError
    from webhooks.config.validation import Model as Model
    from webhooks.config.validation import duration as duration
    from webhooks.config.validation import field_error as field_error
    from webhooks.config.validation import one_of as one_of
    from webhooks.plugins.loader import PluginContext as PluginContext
    from webhooks.plugins.loader import load as load
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        globals(),
        {
            "Document": "webhooks.config.document",
            "FieldError": "webhooks.config.validation",
            "Model": "webhooks.config.validation",
            "PluginContext": "webhooks.plugins.loader",
            "duration": "webhooks.config.validation",
            "field_error": "webhooks.config.validation",
            "load": "webhooks.plugins.loader",
            "one_of": "webhooks.config.validation",
        },
    )
