"""What the page shows of a run, for each task: its model, its description, and answers that no other task has."""

from headwise.page.views.images import ImagesView
from headwise.page.views.language_model import LanguageModelView, MaskedModelView
from headwise.page.views.translation import TranslationView
from headwise.page.views.view import View

VIEWS: dict[str, type[View]] = {
    task: view for view in (TranslationView, LanguageModelView, MaskedModelView, ImagesView) for task in view.tasks
}
